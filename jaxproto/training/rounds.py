"""Outputs of a round on the host: checks and counts."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxproto.core.types import ArrayLike, Tree
from jaxproto.errors import first_few
from jaxproto.experiment.build import Experiment
from jaxproto.round.participation import Participation
from jaxproto.round.simulated_time import ELAPSED
from jaxproto.round.uploads import PreReport, Report
from jaxproto.training import programs
from jaxproto.training.programs import Programs, State
from jaxproto.wire import codec


class Diverged(RuntimeError):
    """Error of a loss, upload or parameter that is no finite number."""


class RoundOutputs(NamedTuple):
    """Outputs of the programs of a round, on the host."""

    participants: Participation
    scalars_down: ArrayLike  # that a client gets: [], or [K] by client id
    bytes_down: ArrayLike  # of these on the wire
    reports: list[Report]  # per cohort and call
    pre_reports: list[PreReport]  # per cohort and call; empty with one exchange
    diagnostics: dict[str, np.ndarray]


def finish_round(
    exp: Experiment, r: int, outputs: RoundOutputs, counters: Sequence
) -> tuple[dict[str, Any], Sequence]:
    """Checks and counts round `r`, from 0; returns its summary and the counters.

    Args:
      counters: `traffic` and `watched` of the state before the round.

    Raises:
      Diverged: A client has numbers that are not finite.
    """
    check_finite(exp, r, outputs)
    summary, (traffic, watched) = summarize_round(exp, outputs), counters
    moved = np.array([summary["bytes_up"], summary["bytes_down"]], np.int64)
    seconds = elapsed(r, outputs.reports, watched)
    # an asynchronous server has the elapsed time among its diagnostics
    values = {ELAPSED: seconds, **outputs.diagnostics}
    return summary, (traffic + moved, record_history(r, values, watched))


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


def summarize_round(exp: Experiment, outputs: RoundOutputs) -> dict[str, Any]:
    """Returns loss and traffic of a round, as in the records.

    The loss is the mean over the clients that took a step, nan if none did;
    `bytes_by_client` has arrays by client id.
    """
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
    return {
        "loss": math.fsum(losses) / stepped if stepped else math.nan,
        "participants": int(trains.sum()),
        "scalars_up": sum(int(report.scalars.sum()) for report in sent),
        "scalars_down": int(scalars_down.sum()),
        "bytes_up": int(up.sum()),
        "bytes_down": int(down.sum()),
        "bytes_by_client": {"up": up, "down": down},
    }
