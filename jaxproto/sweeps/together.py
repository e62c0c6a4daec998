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

from jaxproto.storage import records, workdir
from jaxproto.sweeps.plan import Cell
from jaxproto.training import programs, rounds, runner, stopping
from jaxproto.training.programs import Programs, State
from jaxproto.types import Tree


class Member(NamedTuple):
    """A cell that trains with others."""

    cell: Cell
    run: runner.Run
    first: int  # rounds behind its state
    state: State


class Batch(NamedTuple):
    """Cells that are one program, from the same round to the same last one."""

    members: tuple[Member, ...]
    work: rounds.Work  # with programs of that many federations
    shown: Sequence  # progress of each


def begun(
    cells: Sequence[Cell], prepare: Callable, grace: float, board, stack
) -> tuple[list[Member], dict[str, dict], list[Cell]]:
    """Claims the folders of cells until `stack` closes.

    Returns:
      Members that have rounds to train, the summaries of cells that have not, and cells
      that another process trains.
    """
    members, found, busy = [], {}, []
    for cell in cells:
        try:
            claimed = stack.enter_context(workdir.claim(cell.path))
        except workdir.Busy:
            busy.append(cell)
            continue
        summary = runner.existing(cell.config, cell.path)
        if summary is not None:
            board.ended(cell, summary, 0.0)
            found[cell.name] = summary
            continue
        console = board.console(cell)
        start = runner.Start(cell.config, cell.path, console, grace, claimed)
        members.append(Member(cell, *runner.begin(start, prepare(start))))
    return members, found, busy


def batches(members: Sequence[Member], most: int) -> list[list[Member]]:
    """Members that agree in their rounds, in parts of equal size, `most` at a time."""
    alike: dict[tuple, list[Member]] = {}
    for member in members:
        c = member.cell.config
        key = (member.first, c.rounds, c.eval_every, c.checkpoint_every)
        alike.setdefault(key, []).append(member)
    parts = []
    for group in alike.values():
        count = -(-len(group) // (most or len(group)))
        parts += [list(part) for part in np.array_split(np.arange(len(group)), count)]
        parts[-count:] = [[group[i] for i in part] for part in parts[-count:]]
    return parts


def train(
    members: Sequence[Member], compiled: Programs, grace: float, board
) -> dict[str, dict]:
    """Trains members as one program; a diverged one stops, the others go on.

    Args:
      compiled: of as many federations.

    Returns:
      {name of the cell: summary}.

    Raises:
      stopping.Stopped: SIGTERM came, and the round that was running is saved.
    """
    floats = [member.run.work.exp.floats for member in members]
    joined = {k: np.stack([f[k] for f in floats]) for k in floats[0]}
    work = members[0].run.work._replace(compiled=programs.with_floats(compiled, joined))
    c, first = members[0].cell.config, members[0].first
    with contextlib.ExitStack() as stack:
        shown = [
            stack.enter_context(board.progress(m.cell, c.rounds, m.first, None))
            for m in members
        ]
        asked = stack.enter_context(stopping.rounds(grace))
        loop = Loop(Batch(tuple(members), work, shown), board)
        for r in range(first, c.rounds):
            stop = loop.round(r, asked)
            if stop:
                raise stopping.Stopped(
                    f"round {r + 1} is saved, the same command goes on"
                )
    return loop.ended(c.rounds)


class Loop:
    """The state of a batch between two rounds."""

    def __init__(self, batch: Batch, board):
        """Before the first of its rounds."""
        self.batch, self.board = batch, board
        states = [m.state for m in batch.members]
        self.server = programs.stacked([s.server for s in states])
        self.clients = programs.stacked([s.clients for s in states])
        self.own = [s._replace(server=(), clients=()) for s in states]
        self.seconds: list[float] = []
        self.found: dict[str, dict] = {}  # of cells that have ended

    def alive(self) -> list[tuple[int, Member]]:
        """Cells that have not diverged, with their places."""
        each = enumerate(self.batch.members)
        return [(i, m) for i, m in each if m.cell.name not in self.found]

    def state(self, i: int) -> State:
        """The state of one cell."""
        server, clients = jax.tree.map(lambda a: a[i], (self.server, self.clients))
        return self.own[i]._replace(server=server, clients=clients)

    def round(self, r: int, asked: Callable[[], bool]) -> bool:
        """Trains a round, evaluates and saves where it is due; whether to stop."""
        clock, work = time.perf_counter(), self.batch.work
        seeds = [m.run.work.seed for m in self.batch.members]
        context = programs.stacked([programs.round_context(s, r) for s in seeds])
        after = rounds.on_device(work, context, self.server, self.clients)
        self.server, self.clients, told = after
        moved = {i: self._count(r, i, m, row(told, i)) for i, m in self.alive()}
        self.seconds.append((time.perf_counter() - clock) / len(seeds))
        for i, _ in self.alive():
            self.batch.shown[i].round(r + 1, self.seconds[-1])
        c = self.batch.members[0].cell.config
        last, stop = r + 1 == c.rounds, asked()
        if last or (r + 1) % c.eval_every == 0:
            self._evaluate(r + 1, moved)
        if last or stop or (r + 1) % c.checkpoint_every == 0:
            for i, m in self.alive():
                runner.save(m.run, r + 1, self.state(i))
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
        told = rounds.outcome(self.batch.work, self.server, self.clients)
        for i, m in self.alive():
            exp, seconds = m.run.work.exp, self.seconds
            made = rounds.record(exp, r, self.own[i], moved[i], seconds, row(told, i))
            records.append(m.run.path / "metrics.jsonl", made)
            self.batch.shown[i].evaluated(made)
        self.seconds = []

    def _end(self, i: int, member: Member, status: dict):
        summary = runner.ended(member.run, self.state(i), status)
        self.found[member.cell.name] = summary
        self.board.ended(member.cell, summary, 0.0)

    def ended(self) -> dict[str, dict]:
        """Summaries and pictures of all."""
        for i, m in self.alive():
            self._end(i, m, runner.FINISHED)
        return self.found


def row(tree: Tree, i: int) -> Tree:
    """What a program of many federations says of one."""
    return jax.tree.map(lambda a: a[i], tree)
