"""Checkpoints of a run: written after rounds, and gone on from.

By several processes, each writes the clients that it has, if all of them see the work
directory; otherwise the first gathers all and writes them.
"""

from collections.abc import Sequence

from rich.console import Console

from jaxproto.storage import checkpoint, process_shards, records
from jaxproto.storage import workdir as folder
from jaxproto.storage.run_folder import METRICS, RunFolder
from jaxproto.training import multihost, signals
from jaxproto.training.programs import State
from jaxproto.training.run_context import Run


def resume(run: Run, state: State, due: Sequence[int]) -> tuple[int, State]:
    """The newest checkpoint that can be used, with metrics cut to it; else round 0.

    Args:
      due: rounds whose record must be in the metrics, as far as the run has come.

    Raises:
      UserError: there are checkpoints, and none can be used.
    """
    like = run.work.store.gather_state(state)
    found = multihost.checked(lambda: _found(run, like, due))
    start = multihost.agreed(lambda: found.round if found is not None else 0)
    if start:
        there = multihost.shared(like if found is None else found.state)
        state = run.work.store.restore(there)
    records.keep_until(run.path / METRICS, start)
    return start, state


def _found(run: Run, like: State, due: Sequence[int]) -> checkpoint.Restored | None:
    """The newest checkpoint that can be used; rows of clients go into their store."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    covered = RunFolder.at(run.path).covered(due)
    found = checkpoint.latest(directory, like, settings, covered)
    if found is not None:
        run.work.store.load(directory / str(found.round))
        for note in found.notes:
            say(run.console, note)
        say(run.console, f"resuming {run.path} after round {found.round}")
        checkpoint.sweep(directory, found.round)
    return found


def say(console: Console, text: str):
    """Prints a sentence as it is, however long: paths may hold brackets."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def keep(run: Run, r: int, state: State):
    """Writes a checkpoint; Ctrl-C waits until it is whole."""
    if run.home is not None:
        keep_own(run, r, state)
    else:
        state = run.work.store.gather_state(state)
        if multihost.first():
            keep_all(run, r, state)


def keep_all(run: Run, r: int, state: State):
    """Writes all of a checkpoint."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    store = run.work.store
    with signals.finished_first():
        checkpoint.save(directory, r, state, settings, store.changes())
        store.saved(r)
    run.told.tell("on_checkpoint", r, directory / str(r))


def keep_own(run: Run, r: int, state: State):
    """Writes the part of a checkpoint that this process has."""
    assert run.home is not None
    directory = run.home / "checkpoints"
    rest, mine = run.work.store.own_state(state)

    def write(unfinished):
        multihost.wait("the checkpoint is begun")
        process_shards.write(unfinished, multihost.number(), mine)
        multihost.wait("all parts are written")

    with signals.finished_first():
        if multihost.first():
            settings = folder.settings(run.config)
            checkpoint.save(directory, r, rest, settings, others=write)
        else:
            write(checkpoint.unfinished(directory, r))
    run.told.tell("on_checkpoint", r, directory / str(r))
