"""A run in its folder: how it begins, resumes, is saved and ends."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto.callbacks import Callback, EarlyStopping, RunInfo
from jaxproto.config import flatten
from jaxproto.errors import UserError
from jaxproto.experiment import build, display_names
from jaxproto.experiment.cohorts import NODES
from jaxproto.mesh import ONE, OneDevice
from jaxproto.storage import checkpoint, records
from jaxproto.storage import workdir as folder
from jaxproto.storage.run_folder import METRICS, SUMMARY, RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import pictures
from jaxproto.summary import run_summary as summaries
from jaxproto.training import multihost, signals
from jaxproto.training.callback_list import CallbackList
from jaxproto.training.programs import State
from jaxproto.training.progress import progress
from jaxproto.training.rounds import Diverged, RoundEnvironment


class Run(NamedTuple):
    """What stays the same over the rounds of a run."""

    config: ml_collections.ConfigDict
    path: Path
    work: RoundEnvironment
    compiled: summaries.CompileStats
    console: Console
    grace: float
    shown: Callable
    told: CallbackList
    spent: Callable[[int], dict] = lambda rounds: {}  # rounds done -> entry `privacy`
    # of a record, or none
    unknown: Sequence[str] = ()  # entries of the summary that this run cannot say


class Start(NamedTuple):
    """What a run is begun with."""

    config: ml_collections.ConfigDict
    path: Path
    console: Console
    grace: float
    claimed: folder.WorkdirLock
    shown: Callable = progress  # rounds, those done, console -> told of each round
    callbacks: Sequence[Callback] = ()
    layout: OneDevice = ONE  # or several devices
    home: Path | None = None  # the work directory, if several processes see it

    def listeners(self) -> CallbackList:
        """The callbacks, early stopping first if the configuration asks for it."""
        asked = self.config.early_stopping
        early = [EarlyStopping(asked.patience, asked.rule, asked.least)]
        first = early if asked.patience and multihost.is_primary() else []
        return CallbackList([*first, *self.callbacks], self.console)


def info(path: Path, config: ml_collections.ConfigDict, first: int) -> RunInfo:
    """What callbacks learn of a run with `first` rounds behind it."""
    return RunInfo(path, flatten(config), first, RunFolder.at(path).records)


def existing(start: Start) -> dict | None:
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


def resume(run: Run, state: State, due: Sequence[int]) -> tuple[int, State]:
    """The newest checkpoint that can be used, with metrics cut to it; else round 0.

    Args:
      due: rounds whose record must be in the metrics, as far as the run has come.

    Raises:
      UserError: there are checkpoints, and none can be used.
    """
    like = run.work.store.gather_state(state)
    found = multihost.raise_everywhere(lambda: _found(run, like, due))
    start = multihost.broadcast_result(lambda: found.round if found is not None else 0)
    if start:
        there = multihost.broadcast_arrays(like if found is None else found.state)
        state = run.work.store.restore(there)
    records.truncate_after(run.path / METRICS, start)
    return start, state


def _found(run: Run, like: State, due: Sequence[int]) -> checkpoint.Restored | None:
    """The newest checkpoint that can be used; rows of clients go into their store."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    covered = RunFolder.at(run.path).covered(due)
    found = checkpoint.restore_latest(directory, like, settings, covered)
    if found is not None:
        run.work.store.load(directory / str(found.round))
        for note in found.notes:
            say(run.console, note)
        say(run.console, f"resuming {run.path} after round {found.round}")
        checkpoint.prune(directory, found.round)
    return found


def say(console: Console, text: str):
    """Prints a sentence as it is, however long: paths may hold brackets."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def keep(run: Run, r: int, state: State):
    """Writes a checkpoint; Ctrl-C waits until it is whole."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    with signals.uninterrupted():
        run.work.store.save_checkpoint(directory, r, state, settings)
    run.told.notify("on_checkpoint", r, directory / str(r))


def diverged(run: Run, error: Diverged) -> dict:
    """How a run ended that has diverged, with the way out."""
    reason = f"{error} {_way_out(run.path)}"
    say(run.console, f"diverged: {reason}")
    return {"status": Status.DIVERGED.value, "reason": reason}


def _way_out(path: Path) -> str:
    directory = path / "checkpoints"
    rounds = checkpoint.rounds(directory)
    last = f"{rounds[-1]} stays in {directory}" if rounds else ""
    kept = f"The checkpoint of round {last}" if rounds else ""
    return (
        f"{kept or 'No round was saved before it'}; in another folder, a smaller "
        "optimizer.learning_rate or optimizer.clip_norm may help."
    )


def ended(run: Run, state: State, status: Mapping) -> dict:
    """Writes pictures and `summary.json`; returns the summary."""
    state = run.work.store.gather_state(state)
    return multihost.broadcast_result(lambda: _ended(run, state, status))


def _ended(run: Run, state: State, status: Mapping) -> dict:
    found = RunFolder.at(run.path).records
    made = summaries.run_summary(run.config, run.work.exp, found, run.compiled, status)
    summary = {k: v for k, v in made.items() if k not in run.unknown}
    if Status(status["status"]).ok and run.work.exp.store != NODES:
        _draw(run, state)
    records.write_json(run.path / SUMMARY, summary)
    run.told.end(records.to_json_values(summary))
    return summary


def _draw(run: Run, state: State):
    exp = run.work.exp
    alone = exp.layout is ONE
    examples = run.work.examples if alone else build.examples(exp.dataset)
    trained = pictures.TrainedFederation(exp, examples, state.server, state.clients)
    name = display_names.display_name(config_.flatten(run.config))
    pictures.draw_all(trained, run.path, run.console, name)
