"""Batched training of sweep cells: one program with a leading axis of federations.

Server, clients, keys and floats are stacked; data and index tables are shared. Every
cell writes its own run directory. Its seconds per round are those of the program
divided by the number of cells.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.core.types import Tree
from jaxproto.devices import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.lab.sweeps.live_table import LiveTable
from jaxproto.lab.sweeps.plan import Cell
from jaxproto.round.federation import Model
from jaxproto.training import programs
from jaxproto.training.client_store import ClientStore
from jaxproto.training.debug_nans import locate_nans, unchecked
from jaxproto.training.engine import LocalEngine
from jaxproto.training.loop import train_rounds
from jaxproto.training.program import stack_trees
from jaxproto.training.programs import Programs
from jaxproto.training.run import Run


class BatchedRun(NamedTuple):
    """Cell that trains in a batch."""

    cell: Cell
    run: Run
    engine: LocalEngine  # of the run alone


def group_by_schedule(
    members: Sequence[BatchedRun], max_size: int
) -> list[list[BatchedRun]]:
    """Groups members with equal schedules of rounds, at most `max_size` in a group."""
    groups: dict[tuple, list[BatchedRun]] = {}
    for member in members:
        c = member.cell.config
        key = (member.run.first, c.rounds, c.eval_every, c.checkpoint_every)
        groups.setdefault(key, []).append(member)
    return [
        group[i : i + max_size]
        for group in groups.values()
        for i in range(0, len(group), max_size)
    ]


def train(
    members: Sequence[BatchedRun], compiled: Programs, count: int, table: LiveTable
):
    """Trains members as one program; a diverged member stops alone.

    Args:
      compiled: Programs of `count` federations.
      count: Number of federations of a program; copies of the first member fill it.

    Raises:
      signals.StoppedBySignal: SIGTERM came; the running round is saved.
    """
    start = time.perf_counter()

    def ended(i, summary):
        table.ended(members[i].cell, summary, time.perf_counter() - start)

    engine = BatchedEngine([m.engine for m in members], compiled, count)
    train_rounds([m.run for m in members], engine, ended)


class BatchedEngine(LocalEngine):
    """Engine of federations that are stacked along a leading axis of every array."""

    def __init__(self, engines: Sequence[LocalEngine], compiled: Programs, count: int):
        """Stacks the floats of runs and binds them to the programs; see `train`."""
        self.size, self._exps = count, [engine.exp for engine in engines]
        self._seeds = [engine.seed for engine in self._pad(engines)]
        floats, first = [exp.floats for exp in self._pad(self._exps)], engines[0]
        stacked = {k: np.stack([f[k] for f in floats]) for k in floats[0]}
        exp = first.exp._replace(cores=1)
        plain = partial(programs.plain_batched_programs, exp, stacked)
        bound = locate_nans(programs.with_floats(compiled, stacked), plain)
        store = ClientStore(exp, bound)
        super().__init__(exp, first.examples, bound, first.seed, store)

    def _pad(self, items: Sequence) -> list:
        """Returns a value per federation of the program, repeating the first."""
        return [*items, *[items[0]] * (self.size - len(items))]

    def joined(self, models: Sequence[Model]) -> Model:
        """Returns servers and clients with the leading axis."""
        return stack_trees(self._pad(models))

    def context(self, r: int) -> programs.Context:
        """Returns the contexts of round `r`, from 0, of all federations."""
        return stack_trees([programs.round_context(s, r) for s in self._seeds])

    def by_run(self, tree: Tree) -> list[tuple[Experiment, Tree]]:
        """Returns the experiment and the results of every run."""
        return [(exp, select_member(tree, i)) for i, exp in enumerate(self._exps)]

    def member(self, model: Model, i: int) -> Model:
        """Returns server and clients of one federation, on the host."""
        return mesh.to_host(select_member(model, i))


@unchecked
def select_member(tree: Tree, i: int) -> Tree:
    """Selects one federation from the arrays of a batch."""
    return jax.tree.map(lambda a: a[i], tree)
