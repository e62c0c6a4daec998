"""Writer of runs of Weights & Biases, online or offline by `WANDB_MODE`."""

import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

import wandb

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points
from jaxproto.io import atomic

NAME = "wandb_id.txt"  # in the work directory: id of the run, for resuming
_starting = threading.Lock()  # cells of a sweep start concurrently


class Wandb(Callback):
    """Callback that logs a W&B run, with files in `wandb` of the work directory.

    A resumed run keeps its id. Online, rounds that W&B has are not sent again. Offline,
    every start creates a folder with all rounds: sync the newest.
    """

    def on_start(self, run_info: RunInfo):
        """Starts or resumes the run."""
        path = run_info.path
        with _starting:
            self._run = wandb.init(
                project="jaxproto",  # WANDB_PROJECT comes first
                name=path.resolve().name,
                id=_run_id(path),
                dir=str(path),
                config=dict(run_info.config),
                resume="allow",
                reinit="create_new",
                settings=wandb.Settings(silent=True, console="off"),
            )
        for record in run_info.records:
            self.on_evaluation(record)

    def on_evaluation(self, record: Mapping):
        """Logs the numbers of a record."""
        for r, values in scalar_points(record):
            if r >= self._run.step:  # W&B has earlier steps already
                self._run.log(values, step=r)

    def on_end(self, summary: Mapping):
        """Finishes the run; a nonzero exit code marks it as failed."""
        ok = summary["status"] in ("finished", "stopped early")
        self._run.finish(exit_code=0 if ok else 1)


def _run_id(path: Path) -> str:
    """Returns the id of the run in a work directory; creates it if missing."""
    file = path / NAME
    if not file.exists():
        atomic.write(file, f"{uuid.uuid4().hex[:8]}\n".encode())
    return file.read_text().strip()
