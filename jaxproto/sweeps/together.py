"""Cells as one program: the federations of a group have a leading axis (accelerators).

Server, clients, keys and floats are stacked; data and index tables are shared. What a
run writes, every cell writes for itself. Its seconds per round are those of the program
divided by the cells in it.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import devices
from jaxproto.storage import workdir
from jaxproto.sweeps.board import Board
from jaxproto.sweeps.plan import Cell, errors_named
from jaxproto.sweeps.shared import Shared
from jaxproto.training import evaluation, programs, rounds, runner, stopping
from jaxproto.training.programs import Programs, State
from jaxproto.training.start import info
from jaxproto.types import Tree
from jaxproto.writers import Callback


class Member(NamedTuple):
    """A cell that trains with others."""

    cell: Cell
    run: runner.Run
    first: int  # rounds behind its state
    state: State


def begun(
    shared: Shared,
    grace: float,
    made: Callable[[], list[Callback]],
    board: Board,
    stack: contextlib.ExitStack,
    cells: Sequence[Cell],
) -> tuple[list[Member], set[str]]:
    """Claims the folders of cells until `stack` closes, but not those that are busy.

    Args:
      made: the callbacks of a cell.

    Returns:
      Members that have rounds to train, and the names of cells that have not.
    """
    members, ended = [], set()
    for cell in cells:
        try:
            claimed = stack.enter_context(workdir.claim(cell.path))
        except workdir.Busy:
            board.busy(cell)
            continue
        given = cell.config, cell.path, board.console(cell), grace, claimed
        start = runner.Start(*given, callbacks=made())
        with errors_named(cell):
            summary = runner.existing(start)
            if summary is None:
                members.append(Member(cell, *runner.begin(start, shared(start))))
        if summary is not None:
            board.ended(cell, summary, 0.0)
            ended.add(cell.name)
    return members, ended


def batches(members: Sequence[Member], most: int) -> list[list[Member]]:
    """Members that agree in their rounds, `most` at a time at most."""
    alike: dict[tuple, list[Member]] = {}
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
    members: Sequence[Member], compiled: Programs, count: int, grace: float, board
):
    """Trains members as one program; a diverged one stops, the others go on.

    Args:
      compiled: of `count` federations; where there are fewer members, the first one
        fills the places up.

    Raises:
      stopping.Stopped: SIGTERM came, and the round that was running is saved.
    """
    c, first = members[0].cell.config, members[0].first
    with contextlib.ExitStack() as stack:
        shown = [
            stack.enter_context(board.progress(m.cell, c.rounds, m.first, None))
            for m in members
        ]
        for m in members:
            told = info(m.run.path, m.cell.config, first)
            stack.enter_context(m.run.told.during(told))
        asked = stack.enter_context(stopping.rounds(grace))
        loop = Loop(members, shown, compiled, count, board)
        loop.end_early()
        for r in range(first, c.rounds):
            if loop.alive() and loop.round(r, asked):
                raise stopping.Stopped(
                    f"round {r + 1} is saved, the same command goes on"
                )
    loop.ended()


class Loop:
    """The state of a batch between two rounds."""

    def __init__(
        self,
        members: Sequence[Member],
        shown: Sequence,
        compiled: Programs,
        count: int,
        board: Board,
    ):
        """Before the first of its rounds; see `train`."""
        self.members, self.shown, self.board = members, shown, board
        places = [*members, *[members[0]] * (count - len(members))]
        self.seeds = [m.run.work.seed for m in places]
        floats = [m.run.work.exp.floats for m in places]
        joined = {k: np.stack([f[k] for f in floats]) for k in floats[0]}
        bound = programs.with_floats(compiled, joined)
        self.work = members[0].run.work._replace(compiled=bound)
        self.server = programs.stacked([m.state.server for m in places])
        self.clients = programs.stacked([m.state.clients for m in places])
        self.own = [m.state._replace(server=(), clients=()) for m in members]
        self.seconds: list[float] = []
        self.start = time.perf_counter()
        self.done: set[int] = set()  # places of members that have ended

    def alive(self) -> list[tuple[int, Member]]:
        """Members that have not diverged, with their places."""
        return [(i, m) for i, m in enumerate(self.members) if i not in self.done]

    def state(self, i: int) -> State:
        """The state of one cell."""
        server, clients = devices.to_host(row((self.server, self.clients), i))
        return self.own[i]._replace(server=server, clients=clients)

    def round(self, r: int, asked: Callable[[], bool]) -> bool:
        """Trains a round, evaluates and saves where it is due; whether to stop."""
        clock = time.perf_counter()
        context = programs.stacked([programs.round_context(s, r) for s in self.seeds])
        given = self.server, self.clients, self.work.exp.train
        after = rounds.on_device(self.work, context, *given)
        self.server, self.clients, told = after
        moved = {i: self._count(r, i, m, row(told, i)) for i, m in self.alive()}
        self.seconds.append((time.perf_counter() - clock) / len(self.seeds))
        for i, m in self.alive():
            self.shown[i].round(r + 1, self.seconds[-1])
            m.run.told.round(r + 1, self.seconds[-1], moved[i]._asdict())
        c = self.members[0].cell.config
        last, stop = r + 1 == c.rounds, asked()
        if last or (r + 1) % c.eval_every == 0:
            self._evaluate(r + 1, moved)
        due = last or stop or (r + 1) % c.checkpoint_every == 0
        for i, m in self.alive():
            if due or m.run.told.stop:
                runner.keep(m.run, r + 1, self.state(i))
        if not last:
            self.end_early()
        return stop

    def _count(self, r: int, i: int, member: Member, told: rounds.Told):
        """What a cell moved in a round; it ends here if it has diverged."""
        exp = member.run.work.exp
        try:
            self.own[i], moved = rounds.counted(exp, r, self.own[i], (), (), told)
        except rounds.Diverged as e:
            self._end(i, member, runner.diverged(member.run, e))
            return None
        return moved

    def _evaluate(self, r: int, moved):
        told = evaluation.outcome(self.work, self.server, self.clients)
        for i, m in self.alive():
            made = runner.recorded(
                m.run, r, self.own[i], moved[i], self.seconds, row(told, i)
            )
            self.shown[i].evaluated(made)
        self.seconds = []

    def _end(self, i: int, member: Member, status: dict):
        self.done.add(i)
        summary = runner.ended(member.run, self.state(i), status)
        self.board.ended(member.cell, summary, time.perf_counter() - self.start)

    def end_early(self):
        """Ends the cells whose callbacks have asked for it."""
        for i, m in self.alive():
            if m.run.told.stop:
                self._end(i, m, m.run.told.status(m.run.config))

    def ended(self):
        """Summaries and pictures of all that are left."""
        for i, m in self.alive():
            self._end(i, m, m.run.told.status(m.run.config))


def row(tree: Tree, i: int) -> Tree:
    """What a program of many federations says of one."""
    return jax.tree.map(lambda a: a[i], tree)
