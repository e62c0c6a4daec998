"""What a run begins with, and whether its folder has one that has ended."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_collections
from rich.console import Console

from jaxproto.callbacks import Callback, EarlyStopping, RunInfo
from jaxproto.config import flatten
from jaxproto.errors import UserError
from jaxproto.mesh import DeviceLayout
from jaxproto.storage import checkpoint
from jaxproto.storage import workdir as folder
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import run_summary as summaries
from jaxproto.training import multihost
from jaxproto.training.callback_list import CallbackList
from jaxproto.training.progress import progress
from jaxproto.training.rounds import RoundEnvironment


class RunContext(NamedTuple):
    """What stays the same over the rounds of a run."""

    config: ml_collections.ConfigDict
    path: Path
    work: RoundEnvironment
    compiled: summaries.CompileStats
    console: Console
    grace: float
    progress: Callable
    callbacks: CallbackList
    home: Path | None = None  # the work directory, if several processes see it
    privacy_entry: Callable[[int], dict] = (
        lambda rounds: {}
    )  # rounds done -> entry `privacy`
    # of a record, or none
    unknown: Sequence[str] = ()  # entries of the summary that this run cannot say


class RunRequest(NamedTuple):
    """What a run is begun with."""

    config: ml_collections.ConfigDict
    path: Path
    console: Console
    grace: float
    claimed: folder.WorkdirLock
    shown: Callable = progress  # rounds, those done, console -> told of each round
    callbacks: Sequence[Callback] = ()
    layout: DeviceLayout | None = None  # several devices
    home: Path | None = None  # as of `RunContext`

    def listeners(self) -> CallbackList:
        """The callbacks, early stopping first if the configuration asks for it."""
        asked = self.config.early_stopping
        early = [EarlyStopping(asked.patience, asked.rule, asked.least)]
        first = early if asked.patience and multihost.is_primary() else []
        return CallbackList([*first, *self.callbacks], self.console)


def run_info(path: Path, config: ml_collections.ConfigDict, first: int) -> RunInfo:
    """What callbacks learn of a run with `first` rounds behind it."""
    return RunInfo(path, flatten(config), first, RunFolder.at(path).records)


def finished_summary(start: RunRequest) -> dict | None:
    """The summary of a run that has ended; None if there are rounds to train.

    Raises:
      UserError: the folder holds another run, or one that is damaged.
    """
    config, path = start.config, start.path
    folder.check_config(path, config)
    run = RunFolder.at(path)
    summary, status = run.summary, run.status(config.rounds)
    if summary is None:
        return None
    if status is Status.EXTENDED:
        if not checkpoint.rounds(path / "checkpoints"):
            raise UserError(
                f"{path} is finished after {summary['rounds']} rounds and has no "
                f"checkpoint from which to go on to rounds={config.rounds}. Nothing "
                "was changed. Choose another folder with --workdir."
            )
        return None
    rule = config.early_stopping.to_dict()
    if status is Status.STOPPED_EARLY and summary.get("early_stopping") != rule:
        return None  # it goes on by the other rule that is asked for now
    folder.check_complete(path, config, summary["rounds"])
    return summary
