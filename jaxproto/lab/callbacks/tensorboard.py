"""Writer of TensorBoard event files, by tensorboardX."""

from collections.abc import Mapping

from tensorboardX import SummaryWriter
from tensorboardX.summary import hparams

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import plain_settings, scalar_points

FOLDER = "tensorboard"  # of the work directory


class TensorBoard(Callback):
    """Callback that writes into the folder `tensorboard` of the work directory.

    A resumed run purges the rounds after its checkpoint, which are trained again. In a
    new folder, earlier records of the run are written first.
    """

    def on_start(self, run_info: RunInfo):
        """Opens an event file."""
        folder, rounds_done = run_info.path / FOLDER, run_info.round
        new = not list(folder.glob("events.*"))
        self._config, self._write_config = run_info.config, new
        self._writer = SummaryWriter(
            str(folder),
            purge_step=None if new else rounds_done + 1,
            filename_suffix=f".{rounds_done:06}",
        )
        for record in run_info.records if new else ():
            self._write(record)
        self._writer.flush()

    def on_evaluation(self, record: Mapping):
        """Adds the numbers of a record."""
        self._write(record)
        self._writer.flush()

    def on_end(self, summary: Mapping):
        """Closes the file."""
        self._writer.close()

    def _write(self, record: Mapping):
        for r, values in scalar_points(record):
            for name, value in values.items():
                self._writer.add_scalar(name, value, r)
        if self._write_config:
            self._write_hparams(scalar_points(record)[-1].values)

    def _write_hparams(self, values: Mapping):
        """Writes the settings and the accuracies of a record as the HParams table."""
        self._write_config = False
        accuracies = {k: v for k, v in values.items() if k.startswith("accuracy/")}
        for message in hparams(plain_settings(self._config), accuracies):
            self._writer.file_writer.add_summary(message)
