"""Cells as one program: the federations of a group have a leading axis (accelerators).

Server, clients, keys and floats are stacked; data and index tables are shared. What a
run writes, every cell writes for itself. Its seconds per round are those of the program
divided by the cells in it.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.callbacks import Callback
from jaxproto.federation import Model
from jaxproto.storage import workdir
from jaxproto.sweeps.live_table import LiveTable
from jaxproto.sweeps.plan import Cell, errors_named
from jaxproto.sweeps.shared_programs import SharedPrograms
from jaxproto.training import evaluation, programs, rounds, runner
from jaxproto.training.batched_programs import stack_trees, without_lanes
from jaxproto.training.client_store import DeviceStore
from jaxproto.training.loop import Engine, Evaluated, train_rounds
from jaxproto.training.programs import Programs, State
from jaxproto.training.rounds import RoundEnvironment
from jaxproto.types import Tree


class BatchedRun(NamedTuple):
    """A cell that trains with others."""

    cell: Cell
    run: runner.Run
    first: int  # rounds behind its state
    state: State


def claim_and_restore(
    shared: SharedPrograms,
    grace: float,
    made: Callable[[], list[Callback]],
    board: LiveTable,
    stack: contextlib.ExitStack,
    cells: Sequence[Cell],
) -> tuple[list[BatchedRun], set[str]]:
    """Claims the folders of cells until `stack` closes, but not those that are busy.

    Args:
      made: the callbacks of a cell.

    Returns:
      Members that have rounds to train, and the names of cells that have not.
    """
    members, ended = [], set()
    for cell in cells:
        try:
            claimed = stack.enter_context(workdir.lock_workdir(cell.path))
        except workdir.WorkdirBusy:
            board.busy(cell)
            continue
        start = runner.Start(
            cell.config,
            cell.path,
            board.console(cell),
            grace=grace,
            lock=claimed,
            progress=partial(board.progress, cell),
            callbacks=made(),
        )
        with errors_named(cell):
            summary = runner.finished_summary(start)
            if summary is None:
                members.append(
                    BatchedRun(cell, *runner.restore_or_init(start, shared(start)))
                )
        if summary is not None:
            board.ended(cell, summary, 0.0)
            ended.add(cell.name)
    return members, ended


def group_by_schedule(
    members: Sequence[BatchedRun], most: int
) -> list[list[BatchedRun]]:
    """Members that agree in their rounds, `most` at a time at most."""
    alike: dict[tuple, list[BatchedRun]] = {}
    for member in members:
        c = member.cell.config
        key = (member.first, c.rounds, c.eval_every, c.checkpoint_every)
        alike.setdefault(key, []).append(member)
    return [
        group[i : i + most]
        for group in alike.values()
        for i in range(0, len(group), most)
    ]


def train(
    members: Sequence[BatchedRun], compiled: Programs, count: int, board: LiveTable
):
    """Trains members as one program; a diverged one stops, the others go on.

    Args:
      compiled: of `count` federations; where there are fewer members, the first one
        fills the places up.

    Raises:
      stopping.Stopped: SIGTERM came, and the round that was running is saved.
    """
    start = time.perf_counter()

    def ended(i, summary):
        board.ended(members[i].cell, summary, time.perf_counter() - start)

    engine = BatchedEngine([m.run.work for m in members], compiled, count)
    runs, states = [m.run for m in members], [m.state for m in members]
    train_rounds(runs, engine, members[0].first, states, ended)


class BatchedEngine(Engine):
    """Federations of equal programs, stacked along a leading axis of every array."""

    def __init__(
        self, works: Sequence[RoundEnvironment], compiled: Programs, count: int
    ):
        """Of runs; see `train`."""
        self.size, self._own = count, len(works)
        places = self._filled(works)
        self._seeds = [w.seed for w in places]
        floats = [w.exp.floats for w in places]
        joined = {k: np.stack([f[k] for f in floats]) for k in floats[0]}
        bound = programs.with_floats(compiled, joined)
        store = DeviceStore(without_lanes(works[0].exp), bound)
        self._work = works[0]._replace(compiled=bound, store=store)
        self._exps = [w.exp for w in works]

    def _filled(self, each: Sequence) -> list:
        return [*each, *[each[0]] * (self.size - len(each))]

    def joined(self, states: Sequence[State]) -> Model:
        """Returns servers and clients with the leading axis."""
        places = self._filled(states)
        server = stack_trees([s.server for s in places])
        return Model(server, stack_trees([s.clients for s in places]))

    def round(self, r: int, model: Model) -> tuple[Model, list[rounds.RoundOutputs]]:
        """Computes a round of all federations."""
        context = stack_trees([programs.round_context(s, r) for s in self._seeds])
        model, told = rounds.computed(self._work, context, model, r)
        return model, [select_member(told, i) for i in range(self._own)]

    def evaluate(self, r: int, model: Model) -> list[Evaluated]:
        """Evaluates all federations."""
        del r
        found = evaluation.run_evaluation(self._work, model)
        return [
            Evaluated(exp, select_member(found, i)) for i, exp in enumerate(self._exps)
        ]

    def member(self, model: Model, i: int) -> Model:
        """Returns server and clients of one federation, on the host."""
        return mesh.to_host(select_member(model, i))


def select_member(tree: Tree, i: int) -> Tree:
    """What a program of many federations says of one."""
    return jax.tree.map(lambda a: a[i], tree)
