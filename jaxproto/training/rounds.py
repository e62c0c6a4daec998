"""One round on the host: calls of compiled programs, checks and counts."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.errors import first_few
from jaxproto.experiment.build import Experiment
from jaxproto.federation import Broadcast, Model
from jaxproto.method import Method
from jaxproto.participation import Participation
from jaxproto.simulated_time import ELAPSED
from jaxproto.training import programs
from jaxproto.training.client_store import Calls, ClientStore
from jaxproto.training.programs import Programs, RoundArguments, RoundContext, State
from jaxproto.training.threads import run_parallel
from jaxproto.types import ArrayLike, Examples, Tree
from jaxproto.uploads import PreReport, Report, Uploads
from jaxproto.wire import HEADER, codec


class Diverged(RuntimeError):
    """Error of a loss, upload or parameter that is no finite number."""


class RoundEnvironment(NamedTuple):
    """Data, programs and client store of a run."""

    exp: Experiment
    examples: Examples
    compiled: Programs
    seed: int
    store: ClientStore

    def context(self, r: int) -> RoundContext:
        """Returns the context of round `r`, from 0, on all devices."""
        return self.exp.layout.put(programs.round_context(self.seed, r))


class RoundSummary(NamedTuple):
    """Loss and traffic of a round."""

    loss: float  # mean over the clients that took a step
    participants: int
    scalars_up: int
    scalars_down: int
    bytes_up: int
    bytes_down: int
    bytes_by_client: dict[str, np.ndarray]  # "up" and "down", by client id


class RoundOutputs(NamedTuple):
    """Outputs of the programs of a round, on the host."""

    participants: Participation
    scalars_down: ArrayLike  # of the broadcast, or [N]
    bytes_down: ArrayLike
    reports: list[Report]  # per cohort and lane
    pre_reports: list[PreReport]  # per cohort and lane; empty with one exchange
    diagnostics: dict[str, np.ndarray]


def next_state(
    work: RoundEnvironment, r: int, state: State
) -> tuple[State, RoundSummary]:
    """Returns the state after round `r`, from 0, and the summary of the round.

    Raises:
      Diverged: A client has numbers that are not finite.
    """
    model = Model(state.server, state.clients)
    model, outputs = compute_round(work, work.context(r), model, r)
    counts, summary = finish_round(work.exp, r, state, outputs)
    return counts._replace(server=model.server, clients=model.clients), summary


def compute_round(
    work: RoundEnvironment, context: RoundContext, model: Model, r: int
) -> tuple[Model, RoundOutputs]:
    """Computes a round; returns the model after it, and the outputs of its programs.

    With programs of several federations, arguments and results have their axis.

    Args:
      r: Number of the round, from 0.
    """
    run, store, server = work.compiled, work.store, model.server
    who = run.participate(context, server)

    def next_participants():
        return run.participate(work.context(r + 1), server)

    # whether participation depends on the server's state
    depends = work.exp.method.adjust_sampler is not Method.adjust_sampler
    rows = store.gather(who, model.clients, None if depends else next_participants)
    server, sent, first = first_exchange(work, context, who, server, rows)
    inputs = RoundArguments(context, who, sent.message)
    results = in_calls(work, run.train, inputs, rows)
    after, uploads, reports = zip(*results, strict=True)
    trained = iter(after)
    by_cohort = [[next(trained) for _ in calls] for calls in rows]
    clients = store.scatter(model.clients, rows, by_cohort)
    if work.exp.check_wire:
        check_wire(work.exp, [*first, *zip(uploads, reports, strict=True)], server)
    server = run.update(context, server, uploads)
    outputs = RoundOutputs(
        participants=who,
        scalars_down=sent.scalars,
        bytes_down=sent.bytes,
        reports=list(reports),
        pre_reports=[report for _, report in first],
        diagnostics=run.diagnostics(server),
    )
    outputs = mesh.to_host(outputs)  # sizes, losses; never uploads
    return Model(jax.block_until_ready(server), clients), outputs


def in_calls(
    work: RoundEnvironment,
    compiled: Sequence[Callable],
    inputs: RoundArguments,
    rows: Calls,
) -> list:
    """Runs the programs of cohorts on the rows of every call; returns the results."""
    return run_parallel(
        partial(f, inputs, call.clients, work.examples, call.shards)
        for f, calls in zip(compiled, rows, strict=True)
        for call in calls
    )


def finish_round(
    exp: Experiment, r: int, counts: State, outputs: RoundOutputs
) -> tuple[State, RoundSummary]:
    """Checks and counts round `r`, from 0; returns the counters and the summary.

    Args:
      counts: State before the round, of which traffic and `watched` are used.

    Raises:
      Diverged: A client has numbers that are not finite.
    """
    check_finite(exp, r, outputs.reports)
    summary = summarize_round(exp, outputs)
    moved = np.array([summary.bytes_up, summary.bytes_down], np.int64)
    seconds = elapsed(r, outputs.reports, counts.watched)
    now = {ELAPSED: seconds, **outputs.diagnostics}  # asynchronous: the server's
    watched = record_history(r, now, counts.watched)
    return counts._replace(traffic=counts.traffic + moved, watched=watched), summary


def empty_history(
    exp: Experiment, compiled: Programs, server: Tree, most: int
) -> dict[str, np.ndarray]:
    """Returns arrays of nan for the diagnostics of `most` rounds."""
    timed = [ELAPSED] if exp.timing else []
    names = [*compiled.diagnostics(server), *timed]
    return {name: np.full(most, np.nan) for name in names}


def elapsed(r: int, reports: Sequence[Report], watched: Tree) -> float:
    """Returns the simulated seconds from the start of the run to the end of round `r`.

    Args:
      r: Number of the round, from 0.
      watched: Diagnostics until the round before.
    """
    so_far = dict(watched).get(ELAPSED, [0.0])
    before = float(so_far[(r - 1) % len(so_far)]) if r else 0.0
    return before + max(float(np.max(p.seconds)) for p in reports)


def record_history(r: int, now: Mapping, watched: Tree) -> Tree:
    """Returns `watched` with the diagnostics of round `r`."""
    return {
        name: np.where(np.arange(len(old)) == r % len(old), float(now[name]), old)
        for name, old in dict(watched).items()
    }


def first_exchange(
    work: RoundEnvironment,
    context: RoundContext,
    who: Participation,
    server: Tree,
    rows: Calls,
) -> tuple[Tree, Broadcast, list[tuple[Uploads, PreReport]]]:
    """Returns the server, its broadcast for training, and the messages before it."""
    run, sent = work.compiled, work.compiled.broadcast(server)
    if not run.pre_aggregate:
        return server, sent, []
    inputs = RoundArguments(context, who, sent.message)
    ups = in_calls(work, run.pre_upload, inputs, rows)
    (aggregate,) = run.pre_aggregate
    server = aggregate(context, server, tuple(uploads for uploads, _ in ups))
    sent = run.broadcast(server)
    return server, sent._replace(bytes=sent.bytes + HEADER), ups  # of both broadcasts


def check_finite(exp: Experiment, r: int, reports):
    """Raises Diverged for the first client whose numbers are not finite.

    Aggregations that drop such uploads accept them.
    """
    if exp.method.aggregation.drops_non_finite:
        return
    hint = ""
    if exp.formats.up == "float16":
        hint = " Values beyond 65,504 do not fit wire.up=float16; bfloat16 holds them."
    for p in reports:
        for k in np.flatnonzero(~p.finite):
            name = next(c.name for c in exp.cohorts if p.id[k] in c.ids)
            raise Diverged(
                f"round {r + 1}: client {p.id[k]} of cohort {name!r} has "
                f"loss {p.loss[k]:g} or an upload or weight that is not finite.{hint}"
            )


def dropped_line(r: int, reports: Sequence[Report]) -> str:
    """Returns a line on uploads of round `r`, from 1, that are not finite, or ""."""
    ids = sorted(int(i) for p in reports for i in p.id[~p.finite])
    line = f"round {r}: not finite, so counted as lost: clients {first_few(ids)}"
    return line if ids else ""


def check_wire(exp: Experiment, sent, server: Tree):
    """Checks that every message of a round survives encoding and decoding (slow).

    Args:
      sent: Pairs of uploads and reports.
    """
    for uploads, report in jax.device_get(sent):
        for k, size in enumerate(report.bytes):
            message = jax.tree.map(lambda a, k=k: a[k], uploads.up)
            codec.check_roundtrip(message, int(size), exp.formats.up)
    codec.check_broadcast(exp.method.broadcast(server), exp.formats.down)


def summarize_round(exp: Experiment, outputs: RoundOutputs) -> RoundSummary:
    """Sums losses and traffic of a round over clients."""
    reports = outputs.reports
    sent: list[Report | PreReport] = [*outputs.reports, *outputs.pre_reports]
    stepped = sum(int((p.steps > 0).sum()) for p in reports)
    clients, trains = len(exp.counts.train), np.asarray(outputs.participants.trains)
    up = np.zeros(clients + 1, np.int64)  # the last entry is of unused rows
    for p in sent:
        np.add.at(up, p.id, p.bytes)
    up, down = up[:clients], trains * np.asarray(outputs.bytes_down, np.int64)
    scalars_down = trains * np.asarray(outputs.scalars_down, np.int64)
    return RoundSummary(
        loss=math.fsum(x for p in reports for x in p.loss.tolist()) / max(stepped, 1),
        participants=int(trains.sum()),
        scalars_up=sum(int(p.scalars.sum()) for p in sent),
        scalars_down=int(scalars_down.sum()),
        bytes_up=int(up.sum()),
        bytes_down=int(down.sum()),
        bytes_by_client={"up": up, "down": down},
    )
