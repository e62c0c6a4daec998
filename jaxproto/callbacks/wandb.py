"""Runs of Weights & Biases, online or offline as `WANDB_MODE` says."""

import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

import wandb

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points
from jaxproto.io import atomic

NAME = "wandb_id.txt"  # in the work directory: the id of the run, for when it goes on
_starting = threading.Lock()  # cells of a sweep begin at the same time


class Wandb(Callback):
    """A run of W&B, with its files in the folder `wandb` of the work directory.

    A run that goes on has its id. Online, rounds that W&B has are not sent again;
    offline, every start makes a folder that holds the whole run: sync the newest.
    """

    def on_start(self, run_info: RunInfo):
        """Begins the run, or goes on with it."""
        path = run_info.path
        with _starting:
            self._run = wandb.init(
                project="jaxproto",  # WANDB_PROJECT comes first
                name=path.resolve().name,
                id=_id(path),
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
            if r >= self._run.step:  # smaller ones are there, from before a kill
                self._run.log(values, step=r)

    def on_end(self, summary: Mapping):
        """Finishes the run; W&B calls one that has not finished a failed one."""
        well = summary["status"] in ("finished", "stopped early")
        self._run.finish(exit_code=0 if well else 1)


def _id(path: Path) -> str:
    """The id of the run in a work directory, which it keeps."""
    file = path / NAME
    if not file.exists():
        atomic.write(file, f"{uuid.uuid4().hex[:8]}\n".encode())
    return file.read_text().strip()
