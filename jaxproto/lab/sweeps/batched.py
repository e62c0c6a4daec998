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
from jaxproto.lab.sweeps.live_table import LiveTable
from jaxproto.lab.sweeps.plan import Cell
from jaxproto.round.federation import Model
from jaxproto.training import programs, rounds, runner
from jaxproto.training.client_store import ClientStore
from jaxproto.training.debug_nans import locate_nans, unchecked
from jaxproto.training.loop import Engine, Evaluation, train_rounds
from jaxproto.training.program import stack_trees
from jaxproto.training.programs import Programs, State
from jaxproto.training.rounds import RoundEnvironment
from jaxproto.training.run_evaluation import evaluate_model


class BatchedRun(NamedTuple):
    """Cell that trains in a batch."""

    cell: Cell
    run: runner.Run
    first: int  # number of rounds computed before its state
    state: State


def group_by_schedule(
    members: Sequence[BatchedRun], max_size: int
) -> list[list[BatchedRun]]:
    """Groups members with equal schedules of rounds, at most `max_size` in a group."""
    groups: dict[tuple, list[BatchedRun]] = {}
    for member in members:
        c = member.cell.config
        key = (member.first, c.rounds, c.eval_every, c.checkpoint_every)
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

    engine = BatchedEngine([m.run.work for m in members], compiled, count)
    runs, states = [m.run for m in members], [m.state for m in members]
    train_rounds(runs, engine, members[0].first, states, ended)


class BatchedEngine(Engine):
    """Engine of federations that are stacked along a leading axis of every array."""

    def __init__(
        self,
        environments: Sequence[RoundEnvironment],
        compiled: Programs,
        count: int,
    ):
        """Stacks the floats of runs and binds them to the programs; see `train`."""
        self.size, self._num_runs = count, len(environments)
        padded = self._pad(environments)
        self._seeds = [environment.seed for environment in padded]
        floats = [environment.exp.floats for environment in padded]
        stacked = {k: np.stack([f[k] for f in floats]) for k in floats[0]}
        first = environments[0]
        plain = partial(programs.plain_batched_programs, first.exp, stacked)
        bound = locate_nans(programs.with_floats(compiled, stacked), plain)
        store = ClientStore(first.exp._replace(cores=1), bound)
        self._environment = first._replace(compiled=bound, store=store)
        self._exps = [environment.exp for environment in environments]

    def _pad(self, items: Sequence) -> list:
        """Returns a value per federation of the program, repeating the first."""
        return [*items, *[items[0]] * (self.size - len(items))]

    def joined(self, states: Sequence[State]) -> Model:
        """Returns servers and clients with the leading axis."""
        padded = self._pad(states)
        server = stack_trees([s.server for s in padded])
        return Model(server, stack_trees([s.clients for s in padded]))

    def round(self, r: int, model: Model) -> tuple[Model, list[rounds.RoundOutputs]]:
        """Computes a round of all federations."""
        context = stack_trees([programs.round_context(s, r) for s in self._seeds])
        model, outputs = rounds.compute_round(self._environment, context, model, r)
        return model, [select_member(outputs, i) for i in range(self._num_runs)]

    def evaluate(self, r: int, model: Model) -> list[Evaluation]:
        """Evaluates all federations."""
        sums = evaluate_model(self._environment, model)
        return [(exp, select_member(sums, i)) for i, exp in enumerate(self._exps)]

    def member(self, model: Model, i: int) -> Model:
        """Returns server and clients of one federation, on the host."""
        return mesh.to_host(select_member(model, i))


@unchecked
def select_member(tree: Tree, i: int) -> Tree:
    """Selects one federation from the arrays of a batch."""
    return jax.tree.map(lambda a: a[i], tree)
