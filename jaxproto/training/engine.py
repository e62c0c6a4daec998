"""Engines: they compute the rounds and evaluations of runs.

An engine does not depend on records, checkpoints, callbacks or signals; `loop.py` has
these. Single runs, the cells of a sweep in one program, and runs over nodes differ in
their engine.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from jaxproto.core.method import Method
from jaxproto.core.types import Examples, Tree
from jaxproto.devices import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.round.federation import Broadcast, Model
from jaxproto.round.gather import ParticipantRows
from jaxproto.round.participation import Participation
from jaxproto.round.uploads import PreReport, Uploads
from jaxproto.training import programs
from jaxproto.training.client_store import ClientStore
from jaxproto.training.programs import Context, Programs, State
from jaxproto.training.rounds import RoundOutputs, check_wire, finish_round
from jaxproto.training.run_evaluation import (
    CohortSums,
    in_order_of_places,
    record,
    sums_of_clients,
)
from jaxproto.training.threads import run_parallel
from jaxproto.wire import HEADER

Evaluation = tuple[Experiment, CohortSums]  # of the evaluated clients


class Engine:
    """Computes the rounds of runs that share compiled programs; by default of one."""

    size: int = 1  # federations per program; divides the seconds of a round
    checkpoint_every: int = sys.maxsize  # maximum rounds between checkpoints

    def joined(self, models: Sequence[Model]) -> Model:
        """Joins the models of the runs to that of the engine."""
        (model,) = models
        return model

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes round `r`, from 0; returns the model and the outputs per run."""
        raise NotImplementedError

    def evaluate(self, r: int, model: Model) -> list[Evaluation]:
        """Evaluates every run after `r` rounds."""
        raise NotImplementedError

    def member(self, model: Model, i: int) -> Model:
        """Returns the model of one run."""
        return model


@dataclasses.dataclass(eq=False)
class LocalEngine(Engine):
    """Data, programs and client store of one run on the devices of this process.

    With programs of several federations, arguments and results have a leading axis.
    """

    exp: Experiment
    examples: Examples
    compiled: Programs  # with the floats of the run
    seed: int
    store: ClientStore

    def context(self, r: int) -> Context:
        """Returns the context of round `r`, from 0, on all devices."""
        return self.exp.layout.put(programs.round_context(self.seed, r))

    def by_run(self, tree: Tree) -> list[tuple[Experiment, Tree]]:
        """Returns the experiment and the results of every run."""
        return [(self.exp, tree)]

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes a round on the devices of this process."""
        compiled, store, server = self.compiled, self.store, model.server
        context = self.context(r)
        who = compiled.participate(context, server)

        def next_participants():
            return compiled.participate(self.context(r + 1), server)

        depends_on_server = self.exp.method.adjust_sampler is not Method.adjust_sampler
        upcoming = None if depends_on_server else next_participants
        rows = store.gather(who, model.clients, upcoming)
        in_calls = partial(self._in_calls, rows, context, who)
        server, down, pre_uploads = self._first_exchange(context, server, in_calls)
        results = in_calls(compiled.train, down.message)
        trained, uploads, reports = zip(*results, strict=True)
        remaining = iter(trained)
        by_cohort = [[next(remaining) for _ in calls] for calls in rows]
        clients = store.scatter(model.clients, rows, by_cohort)
        if self.exp.check_wire:
            sent = [*pre_uploads, *zip(uploads, reports, strict=True)]
            check_wire(self.exp, sent, server)
        server = compiled.update(context, server, uploads)
        outputs = RoundOutputs(
            participants=who,
            scalars_down=down.scalars,
            bytes_down=down.bytes,
            reports=list(reports),
            pre_reports=[report for _, report in pre_uploads],
            diagnostics=compiled.diagnostics(server),
        )
        by_run = self.by_run(mesh.to_host(outputs))  # sizes, losses; never uploads
        model = Model(jax.block_until_ready(server), clients)
        return model, [of_run for _, of_run in by_run]

    def _in_calls(
        self,
        rows: Sequence[Sequence[ParticipantRows]],
        context: Context,
        who: Participation,
        compiled: Sequence[Callable],
        down: Tree,
    ) -> list:
        """Runs the programs of cohorts on the rows of all calls; returns results."""
        return run_parallel(
            partial(f, context, who, down, call.clients, self.examples, call.shards)
            for f, calls in zip(compiled, rows, strict=True)
            for call in calls
        )

    def _first_exchange(
        self, context: Context, server: Tree, in_calls: Callable
    ) -> tuple[Tree, Broadcast, list[tuple[Uploads, PreReport]]]:
        """Returns server, broadcast for training, and messages sent before training."""
        compiled, down = self.compiled, self.compiled.broadcast(server)
        if compiled.pre_aggregate is None:
            return server, down, []
        sent = in_calls(compiled.pre_upload, down.message)
        uploads = tuple(up for up, _ in sent)
        server = compiled.pre_aggregate(context, server, uploads)
        down = compiled.broadcast(server)
        # bytes of both broadcasts
        return server, down._replace(bytes=down.bytes + HEADER), sent

    def evaluate(self, r: int, model: Model) -> list[Evaluation]:
        """Evaluates on the devices of this process."""
        f, down = self.compiled.evaluate, self.compiled.broadcast(model.server).message
        found: list[list[tuple[Any, Tree]]] = [[] for _ in self.exp.cohorts]
        for chunks in self.store.evaluated(model.clients):
            calls = [
                partial(f[i], down, call.clients, self.examples, call.shards)
                for i, call in chunks
            ]
            results = mesh.to_host(run_parallel(calls))
            for (i, call), result in zip(chunks, results, strict=True):
                found[i].append((call.place, result))
        by_run = self.by_run([in_order_of_places(rows) for rows in found])
        return [(exp, sums_of_clients(exp, results)) for exp, results in by_run]


def next_state(engine: LocalEngine, r: int, state: State) -> tuple[State, dict]:
    """Returns the state after round `r`, from 0, and the summary of the round.

    Raises:
      Diverged: A client has numbers that are not finite.
    """
    server, clients, *counters = state
    model, (outputs,) = engine.round(r, Model(server, clients))
    summary, counted = finish_round(engine.exp, r, outputs, counters)
    return State(*model, *counted), summary


def evaluate(engine: LocalEngine, r: int, state: State, last: Mapping, seconds) -> dict:
    """Evaluates the state after `r` rounds; returns the record."""
    server, clients, *counters = state
    ((exp, sums),) = engine.evaluate(r, Model(server, clients))
    diagnostics = engine.compiled.diagnostics(server)
    return record(exp, r, last, sums, counters, diagnostics, seconds)
