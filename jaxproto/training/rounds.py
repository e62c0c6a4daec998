"""One round on the host: calls of compiled programs, checks and counts."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.core.method import Method
from jaxproto.core.types import ArrayLike, Examples, Tree
from jaxproto.devices import mesh
from jaxproto.errors import first_few
from jaxproto.experiment.build import Experiment
from jaxproto.round.federation import Broadcast, Model
from jaxproto.round.participation import Participation
from jaxproto.round.simulated_time import ELAPSED
from jaxproto.round.uploads import PreReport, Report, Uploads
from jaxproto.training import programs
from jaxproto.training.client_store import Calls, ClientStore
from jaxproto.training.programs import Programs, RoundArguments, RoundContext, State
from jaxproto.training.threads import run_parallel
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

    loss: float  # mean over the clients that took a step; nan if none did
    participants: int
    scalars_up: int
    scalars_down: int
    bytes_up: int
    bytes_down: int
    bytes_by_client: dict[str, np.ndarray]  # "up" and "down", by client id


class RoundOutputs(NamedTuple):
    """Outputs of the programs of a round, on the host."""

    participants: Participation
    scalars_down: ArrayLike  # that a client gets: [], or [K] by client id
    bytes_down: ArrayLike  # of these on the wire
    reports: list[Report]  # per cohort and call
    pre_reports: list[PreReport]  # per cohort and call; empty with one exchange
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
    """Computes round `r`, from 0; returns the model and the outputs of its programs.

    With programs of several federations, arguments and results have a leading axis.
    """
    compiled, store, server = work.compiled, work.store, model.server
    who = compiled.participate(context, server)

    def next_participants():
        return compiled.participate(work.context(r + 1), server)

    depends_on_server = work.exp.method.adjust_sampler is not Method.adjust_sampler
    upcoming = None if depends_on_server else next_participants
    rows = store.gather(who, model.clients, upcoming)
    server, down, pre_uploads = first_exchange(work, context, who, server, rows)
    inputs = RoundArguments(context, who, down.message)
    results = in_calls(work, compiled.train, inputs, rows)
    trained, uploads, reports = zip(*results, strict=True)
    remaining = iter(trained)
    by_cohort = [[next(remaining) for _ in calls] for calls in rows]
    clients = store.scatter(model.clients, rows, by_cohort)
    if work.exp.check_wire:
        sent = [*pre_uploads, *zip(uploads, reports, strict=True)]
        check_wire(work.exp, sent, server)
    server = compiled.update(context, server, uploads)
    outputs = RoundOutputs(
        participants=who,
        scalars_down=down.scalars,
        bytes_down=down.bytes,
        reports=list(reports),
        pre_reports=[report for _, report in pre_uploads],
        diagnostics=compiled.diagnostics(server),
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
      counts: State before the round; only `traffic` and `watched` are read.

    Raises:
      Diverged: A client has numbers that are not finite.
    """
    check_finite(exp, r, outputs)
    summary = summarize_round(exp, outputs)
    moved = np.array([summary.bytes_up, summary.bytes_down], np.int64)
    seconds = elapsed(r, outputs.reports, counts.watched)
    # an asynchronous server has the elapsed time among its diagnostics
    values = {ELAPSED: seconds, **outputs.diagnostics}
    watched = record_history(r, values, counts.watched)
    return counts._replace(traffic=counts.traffic + moved, watched=watched), summary


def initial_state(
    exp: Experiment, seed: int, compiled: Programs, eval_every: int
) -> State:
    """Returns the state before the first round, with nan in place of diagnostics."""
    state = programs.init(exp, seed, compiled)
    timed = [ELAPSED] if exp.timing else []
    names = [*compiled.diagnostics(state.server), *timed]
    return state._replace(watched={name: np.full(eval_every, np.nan) for name in names})


def elapsed(r: int, reports: Sequence[Report], watched: Tree) -> float:
    """Returns the simulated seconds from the start of the run to the end of round `r`.

    Rounds are counted from 0; `watched` are the diagnostics until the round before.
    """
    history = dict(watched).get(ELAPSED, [0.0])
    before = float(history[(r - 1) % len(history)]) if r else 0.0
    return before + max(float(np.max(report.seconds)) for report in reports)


def record_history(r: int, values: Mapping, watched: Tree) -> Tree:
    """Returns `watched` with the diagnostics of round `r`."""
    return {
        name: np.where(np.arange(len(old)) == r % len(old), float(values[name]), old)
        for name, old in dict(watched).items()
    }


def first_exchange(
    work: RoundEnvironment,
    context: RoundContext,
    who: Participation,
    server: Tree,
    rows: Calls,
) -> tuple[Tree, Broadcast, list[tuple[Uploads, PreReport]]]:
    """Returns server, broadcast for training, and messages sent before training."""
    compiled, down = work.compiled, work.compiled.broadcast(server)
    if compiled.pre_aggregate is None:
        return server, down, []
    inputs = RoundArguments(context, who, down.message)
    sent = in_calls(work, compiled.pre_upload, inputs, rows)
    uploads = tuple(up for up, _ in sent)
    server = compiled.pre_aggregate(context, server, uploads)
    down = compiled.broadcast(server)
    return server, down._replace(bytes=down.bytes + HEADER), sent  # of both broadcasts


def check_finite(exp: Experiment, r: int, outputs: RoundOutputs):
    """Raises Diverged for the first client whose numbers are not finite.

    An aggregation that drops such uploads goes on while one honest client is usable.
    """
    drops = exp.method.aggregation.bound is not None
    if drops and _any_usable(exp, outputs):
        return
    hint = " So have all that took part, or values beyond wire.bound." if drops else ""
    if exp.formats.up == "float16":
        hint += " Values beyond 65,504 do not fit wire.up=float16; bfloat16 holds them."
    sent: list[Report | PreReport] = [*outputs.pre_reports, *outputs.reports]
    for report in sent:
        for k in np.flatnonzero(~is_usable(report)):
            id = report.id[k]
            loss = f"loss {report.loss[k]:g} or " if isinstance(report, Report) else ""
            name = next(c.name for c in exp.cohorts if id in c.ids)
            raise Diverged(
                f"round {r + 1}: client {id} of cohort {name!r} has {loss}an upload "
                f"or weight that is not finite.{hint}"
            )


def is_usable(report: Report | PreReport) -> np.ndarray:
    """Returns whether messages, losses and parameters of clients are usable [R]."""
    finite = report.finite if isinstance(report, Report) else True
    return np.asarray(report.usable & finite)


def _any_usable(exp: Experiment, outputs: RoundOutputs) -> bool:
    """Returns whether an honest client that trained is usable, or none trained."""
    id_R = np.concatenate([report.id[report.steps > 0] for report in outputs.reports])
    honest = {*id_R[np.asarray(exp.method.scored(id_R))].tolist()}
    sent = [*outputs.pre_reports, *outputs.reports]
    return not honest or not honest <= _ids(sent, lambda report: ~is_usable(report))


def _ids(reports: Sequence, where: Callable) -> set[int]:
    """Returns the ids of the clients for which `where` of a report is true."""
    return {i for report in reports for i in report.id[where(report)].tolist()}


def dropped_line(r: int, outputs: RoundOutputs) -> str:
    """Returns a line on the messages of round `r`, from 1, that were dropped, or ""."""
    sent = [*outputs.pre_reports, *outputs.reports]
    ids = sorted(_ids(sent, lambda report: ~report.usable))
    what = "not finite or beyond wire.bound, so counted as lost"
    return f"round {r}: {what}: clients {first_few(ids)}" if ids else ""


def check_wire(exp: Experiment, sent, server: Tree):
    """Checks that every message of a round survives encoding and decoding (slow).

    `sent` has pairs of uploads and reports.
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
    stepped = sum(int((report.steps > 0).sum()) for report in reports)
    clients, trains = len(exp.counts.train), np.asarray(outputs.participants.trains)
    up = np.zeros(clients + 1, np.int64)  # the last entry is of unused rows
    for report in sent:
        np.add.at(up, report.id, report.bytes)
    up, down = up[:clients], trains * np.asarray(outputs.bytes_down, np.int64)
    scalars_down = trains * np.asarray(outputs.scalars_down, np.int64)
    losses = (x for report in reports for x in report.loss.tolist())
    return RoundSummary(
        loss=math.fsum(losses) / stepped if stepped else math.nan,
        participants=int(trains.sum()),
        scalars_up=sum(int(report.scalars.sum()) for report in sent),
        scalars_down=int(scalars_down.sum()),
        bytes_up=int(up.sum()),
        bytes_down=int(down.sum()),
        bytes_by_client={"up": up, "down": down},
    )
