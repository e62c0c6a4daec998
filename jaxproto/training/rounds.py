"""One round and one evaluation, as the host sees them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.config.build import Experiment
from jaxproto.federation import PreUpload, Report
from jaxproto.participation import Participation
from jaxproto.report import summary
from jaxproto.training import programs
from jaxproto.training.programs import Programs, RoundContext, State
from jaxproto.training.threads import at_once
from jaxproto.types import Client, Examples, Tree
from jaxproto.wire import HEADER, codec


class Diverged(RuntimeError):
    """A loss, an upload or a parameter is no longer a finite number."""


class Work(NamedTuple):
    """What every round of a run needs."""

    exp: Experiment
    examples: Examples
    compiled: Programs
    seed: int


class Round(NamedTuple):
    """What the host learns of a round."""

    loss: float  # mean over the clients that took a step
    participants: int
    scalars_up: int
    scalars_down: int
    bytes_up: int
    bytes_down: int
    bytes_by_client: dict[str, list[int]]  # "up" and "down", by client id


class Told(NamedTuple):
    """What the programs of a round tell the host."""

    participants: Participation
    scalars_down: np.ndarray  # of the broadcast
    bytes_down: np.ndarray
    reports: list[Report]  # per cohort, without uploads
    pre_uploads: list[PreUpload]  # the same; none for a method with one exchange
    diagnostics: dict[str, np.ndarray]


def one_round(work: Work, r: int, state: State) -> tuple[State, Round]:
    """Exchanges, training of every cohort and the server's step.

    Raises:
      Diverged: names round, cohort and client.
    """
    context = programs.round_context(work.seed, r)
    server, clients, told = on_device(work, context, state.server, state.clients)
    return counted(work.exp, r, state, server, clients, told)


def on_device(
    work: Work, context: RoundContext, server: Tree, clients: Sequence[Client]
) -> tuple[Tree, tuple[Client, ...], Told]:
    """A round as far as compiled programs do it.

    Where these are of several federations, so is all that goes in and comes out.
    """
    run = work.compiled
    participants = run.participate(context, server)
    server, sent, pre_uploads = first_exchange(
        work, context, participants, server, clients
    )
    each = at_once(
        partial(train, context, participants, sent.message, own, work.examples, shard)
        for train, own, shard in zip(run.train, clients, work.exp.train, strict=True)
    )
    clients, reports = zip(*each, strict=True)
    if work.exp.check_wire:
        check_wire(work.exp, [*pre_uploads, *reports], server)
    server = run.update(context, server, tuple(p.up for p in reports))
    told = Told(
        participants=participants,
        scalars_down=sent.scalars,
        bytes_down=sent.bytes,
        reports=[p._replace(up=()) for p in reports],
        pre_uploads=[p._replace(up=()) for p in pre_uploads],
        diagnostics=run.diagnostics(server),
    )
    told = jax.device_get(told)  # sizes, losses; never uploads
    return jax.block_until_ready(server), clients, told


def counted(
    exp: Experiment, r: int, state: State, server: Tree, clients, told: Told
) -> tuple[State, Round]:
    """The state after a round with what was moved in it.

    Args:
      state: before the round.
      server, clients: after it.

    Raises:
      Diverged: names round, cohort and client.
    """
    check_finite(exp, r, told.reports)
    summary = summarize_round(exp, told)
    moved = np.array([summary.bytes_up, summary.bytes_down], np.int64)
    watched = watch(r, told.diagnostics, state.watched)
    return State(server, clients, state.traffic + moved, watched), summary


def unwatched(compiled: Programs, server: Tree, most: int) -> dict[str, np.ndarray]:
    """Room for what `diagnostics` says of `most` rounds; nan until then."""
    return {name: np.full(most, np.nan) for name in compiled.diagnostics(server)}


def watch(r: int, now: Mapping, watched: Tree) -> Tree:
    """`watched` with what `diagnostics` says of this round in its place."""
    return {
        name: np.where(np.arange(len(old)) == r % len(old), float(now[name]), old)
        for name, old in dict(watched).items()
    }


def first_exchange(work: Work, context, participants, server: Tree, clients):
    """Server, its broadcast to whoever trains, and the exchange before that, if any."""
    run, sent = work.compiled, work.compiled.broadcast(server)
    ups = at_once(
        partial(pre_upload, participants, sent.message, own, work.examples, shard)
        for pre_upload, own, shard in zip(
            run.pre_upload, clients, work.exp.train, strict=bool(run.pre_upload)
        )
    )
    if run.pre_aggregate is None:
        return server, sent, []
    server = run.pre_aggregate(context, server, tuple(p.up for p in ups))
    sent = run.broadcast(server)
    # The broadcast's two halves are a message each
    return server, sent._replace(bytes=sent.bytes + HEADER), ups


def check_finite(exp: Experiment, r: int, reports):
    """Raises Diverged for the first client whose numbers are not finite."""
    half = " Values beyond 65,504 do not fit wire.up=float16; bfloat16 holds them."
    hint = half if exp.formats.up == "float16" else ""
    for cohort, p in zip(exp.cohorts, reports, strict=True):
        for k in np.flatnonzero(~p.finite):
            raise Diverged(
                f"round {r + 1}: client {cohort.ids[k]} of cohort {cohort.name!r} has "
                f"loss {p.loss[k]:g} or an upload or weight that is not finite.{hint}"
            )


def check_wire(exp: Experiment, parts, server: Tree):
    """Encodes and decodes every message of a round and compares (slow: a check)."""
    for part in jax.device_get(parts):
        for k, size in enumerate(part.bytes):
            message = jax.tree.map(lambda a, k=k: a[k], part.up)
            codec.check(message, int(size), exp.formats.up)
    codec.check_broadcast(exp.method.broadcast(server), exp.formats.down)


def summarize_round(exp: Experiment, told: Told) -> Round:
    """Sums over clients of what a round moved and lost."""
    reports, pre_uploads = told.reports, told.pre_uploads
    stepped = sum(int((p.steps > 0).sum()) for p in reports)
    ids = [i for cohort in exp.cohorts for i in cohort.ids]
    up, trains = np.zeros(len(ids), np.int64), np.asarray(told.participants.trains)
    for parts in (reports, pre_uploads):
        up[ids] += np.concatenate([p.bytes for p in parts]) if parts else 0
    down = trains * int(told.bytes_down)
    return Round(
        loss=sum(float(p.loss.sum()) for p in reports) / max(stepped, 1),
        participants=int(trains.sum()),
        scalars_up=sum(
            int(p.sent.sum()) for part in (reports, pre_uploads) for p in part
        ),
        scalars_down=int(told.scalars_down) * int(trains.sum()),
        bytes_up=int(up.sum()),
        bytes_down=int(down.sum()),
        bytes_by_client={"up": up.tolist(), "down": down.tolist()},
    )


class Outcome(NamedTuple):
    """What the programs of an evaluation tell the host."""

    correct: list[dict[str, np.ndarray]]  # per cohort: {rule: [K]}
    diagnostics: dict[str, np.ndarray]


def evaluate(work: Work, r: int, state: State, last: Round, seconds) -> dict:
    """One record of `metrics.jsonl`: every rule on every client's test data.

    What `diagnostics` says stands there for round `r`, and under `every_round` for each
    round since the record before, if the state holds it.
    """
    told = outcome(work, state.server, state.clients)
    return record(work.exp, r, state, last, seconds, told)


def outcome(work: Work, server: Tree, clients: Sequence[Client]) -> Outcome:
    """An evaluation as far as compiled programs do it; see `on_device`."""
    down = work.compiled.broadcast(server).message
    rows = zip(work.compiled.evaluate, clients, work.exp.test, strict=True)
    correct = at_once(
        partial(f, down, own, work.examples, shard) for f, own, shard in rows
    )
    return jax.device_get(Outcome(correct, work.compiled.diagnostics(server)))


def record(
    exp: Experiment, r: int, state: State, last: Round, seconds, told: Outcome
) -> dict:
    """One record of `metrics.jsonl`."""
    sizes = np.concatenate([np.asarray(s.size) for s in exp.test])
    rules = {
        rule: summary.accuracy(np.concatenate([p[rule] for p in told.correct]), sizes)
        for rule in told.correct[0]
    }
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **last._asdict(),
        "bytes_total": total,
        **{name: float(value) for name, value in told.diagnostics.items()},
        "every_round": {
            name: value[: (r - 1) % len(value) + 1].tolist()
            for name, value in dict(state.watched).items()
        },
        "seconds": float(np.mean(seconds)),
    }
