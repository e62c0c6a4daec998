"""Event files of TensorBoard, by tensorboardX."""

from collections.abc import Mapping

from tensorboardX import SummaryWriter
from tensorboardX.summary import hparams

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points

FOLDER = "tensorboard"  # of the work directory


class TensorBoard(Callback):
    """Writes into the folder `tensorboard` of the work directory.

    A run that goes on tells TensorBoard to forget the rounds after its checkpoint,
    which are trained again. Records from before the writer was asked for come first.
    """

    def on_start(self, run_info: RunInfo):
        """Opens an event file of its own."""
        folder, first = run_info.path / FOLDER, run_info.round
        new = not list(folder.glob("events.*"))
        self._config, self._tell_config = run_info.config, new
        self._writer = SummaryWriter(
            str(folder),
            purge_step=None if new else first + 1,
            filename_suffix=f".{first:06}",
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
        if self._tell_config:
            self._hyper_parameters(scalar_points(record)[-1].values)

    def _hyper_parameters(self, values: Mapping):
        """The table under HParams: settings, and the accuracies of the run beside."""
        self._tell_config = False
        given = {
            k: v if isinstance(v, bool | int | float | str) else str(v)
            for k, v in self._config.items()
        }
        shown = {name: v for name, v in values.items() if name.startswith("accuracy/")}
        for message in hparams(given, shown):
            self._writer.file_writer.add_summary(message)
