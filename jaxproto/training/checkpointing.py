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
from jaxproto.training.run_context import RunContext


def resume(run: RunContext, state: State, due: Sequence[int]) -> tuple[int, State]:
    """The newest checkpoint that can be used, with metrics cut to it; else round 0.

    Args:
      due: rounds whose record must be in the metrics, as far as the run has come.

    Raises:
      UserError: there are checkpoints, and none can be used.
    """
    like = run.work.store.gather_state(state)
    restored = multihost.raise_everywhere(lambda: _found(run, like, due))
    start = multihost.broadcast_result(
        lambda: restored.round if restored is not None else 0
    )
    if start:
        there = multihost.broadcast_arrays(like if restored is None else restored.state)
        state = run.work.store.restore(there)
    records.truncate_after(run.path / METRICS, start)
    return start, state


def _found(
    run: RunContext, like: State, due: Sequence[int]
) -> checkpoint.Restored | None:
    """The newest checkpoint that can be used; rows of clients go into their store."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    covered = RunFolder.at(run.path).covered(due)
    restored = checkpoint.restore_latest(directory, like, settings, covered)
    if restored is not None:
        run.work.store.load(directory / str(restored.round))
        for note in restored.notes:
            print_line(run.console, note)
        print_line(run.console, f"resuming {run.path} after round {restored.round}")
        checkpoint.prune(directory, restored.round)
    return restored


def print_line(console: Console, text: str):
    """Prints a sentence as it is, however long: paths may hold brackets."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def save_checkpoint(run: RunContext, r: int, state: State):
    """Writes a checkpoint; Ctrl-C waits until it is whole."""
    if run.home is not None:
        save_process_shard(run, r, state)
    else:
        state = run.work.store.gather_state(state)
        if multihost.is_primary():
            save_full(run, r, state)


def save_full(run: RunContext, r: int, state: State):
    """Writes all of a checkpoint."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    store = run.work.store
    with signals.uninterrupted():
        checkpoint.save(directory, r, state, settings, store.changes())
        store.saved(r)
    run.callbacks.notify("on_checkpoint", r, directory / str(r))


def save_process_shard(run: RunContext, r: int, state: State):
    """Writes the part of a checkpoint that this process has."""
    assert run.home is not None
    directory = run.home / "checkpoints"
    rest, mine = run.work.store.own_state(state)

    def write(unfinished):
        multihost.barrier("the checkpoint is begun")
        process_shards.write(unfinished, multihost.process_index(), mine)
        multihost.barrier("all parts are written")

    with signals.uninterrupted():
        if multihost.is_primary():
            settings = folder.settings(run.config)
            checkpoint.save(directory, r, rest, settings, others=write)
        else:
            write(checkpoint.unfinished(directory, r))
    run.callbacks.notify("on_checkpoint", r, directory / str(r))
