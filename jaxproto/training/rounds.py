"""One round and one evaluation, as the host sees them."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.config.build import Experiment
from jaxproto.report import summary
from jaxproto.training import programs
from jaxproto.training.programs import Programs, State
from jaxproto.training.threads import at_once
from jaxproto.types import Examples, Tree
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


def one_round(work: Work, r: int, state: State) -> tuple[State, Round]:
    """Exchanges, training of every cohort and the server's step.

    Raises:
      Diverged: names round, cohort and client.
    """
    run, context = work.compiled, programs.round_context(work.seed, r)
    participants = run.participate(context, state.server)
    server, sent, pre_uploads = first_exchange(work, context, participants, state)
    each = at_once(
        partial(
            train, context, participants, sent.message, clients, work.examples, shard
        )
        for train, clients, shard in zip(
            run.train, state.clients, work.exp.train, strict=True
        )
    )
    clients, reports = zip(*each, strict=True)
    if work.exp.check_wire:
        check_wire(work.exp, [*pre_uploads, *reports], server)
    server = run.update(context, server, tuple(p.up for p in reports))
    both = ([p._replace(up=()) for p in part] for part in (reports, pre_uploads))
    reports, pre_uploads = jax.device_get(tuple(both))  # sizes, losses; never uploads
    check_finite(work.exp, r, reports)
    who, scalars, size = jax.device_get((participants, sent.scalars, sent.bytes))
    summary = summarize_round(work.exp, who, scalars, size, reports, pre_uploads)
    jax.block_until_ready(server)
    moved = np.array([summary.bytes_up, summary.bytes_down], np.int64)
    watched = watch(work, r, server, state.watched)
    return State(server, clients, state.traffic + moved, watched), summary


def unwatched(compiled: Programs, server: Tree, most: int) -> dict[str, np.ndarray]:
    """Room for what `diagnostics` says of `most` rounds; nan until then."""
    return {name: np.full(most, np.nan) for name in compiled.diagnostics(server)}


def watch(work: Work, r: int, server: Tree, watched: Tree) -> Tree:
    """`watched` with this round in its place; nothing is asked where it is empty."""
    if not watched:
        return watched
    now = jax.device_get(work.compiled.diagnostics(server))
    return {
        name: np.where(np.arange(len(old)) == r % len(old), float(now[name]), old)
        for name, old in watched.items()
    }


def first_exchange(work: Work, context, participants, state: State):
    """Server, its broadcast to whoever trains, and the exchange before that, if any."""
    run, sent = work.compiled, work.compiled.broadcast(state.server)
    ups = at_once(
        partial(pre_upload, participants, sent.message, clients, work.examples, shard)
        for pre_upload, clients, shard in zip(
            run.pre_upload, state.clients, work.exp.train, strict=bool(run.pre_upload)
        )
    )
    if run.pre_aggregate is None:
        return state.server, sent, []
    server = run.pre_aggregate(context, state.server, tuple(p.up for p in ups))
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


def summarize_round(
    exp: Experiment, participants, scalars_down, bytes_down, reports, pre_uploads
) -> Round:
    """Sums over clients of what a round moved and lost."""
    stepped = sum(int((p.steps > 0).sum()) for p in reports)
    ids = [i for cohort in exp.cohorts for i in cohort.ids]
    up, trains = np.zeros(len(ids), np.int64), np.asarray(participants.trains)
    for parts in filter(None, (reports, pre_uploads)):
        up[ids] += np.concatenate([p.bytes for p in parts])
    down = trains * int(bytes_down)
    return Round(
        loss=sum(float(p.loss.sum()) for p in reports) / max(stepped, 1),
        participants=int(trains.sum()),
        scalars_up=sum(int(p.sent.sum()) for p in [*reports, *pre_uploads]),
        scalars_down=int(scalars_down) * int(trains.sum()),
        bytes_up=int(up.sum()),
        bytes_down=int(down.sum()),
        bytes_by_client={"up": up.tolist(), "down": down.tolist()},
    )


def evaluate(work: Work, r: int, state: State, last: Round, seconds) -> dict:
    """One record of `metrics.jsonl`: every rule on every client's test data.

    What `diagnostics` says stands there for round `r`, and under `every_round` for each
    round since the record before, if the state holds it.
    """
    exp, rows = work.exp, zip(work.compiled.evaluate, state.clients, strict=True)
    down = work.compiled.broadcast(state.server).message
    parts = jax.device_get(
        at_once(
            partial(f, down, clients, work.examples, shard)
            for (f, clients), shard in zip(rows, exp.test, strict=True)
        )
    )
    sizes = np.concatenate([np.asarray(s.size) for s in exp.test])
    rules = {
        rule: summary.accuracy(np.concatenate([p[rule] for p in parts]), sizes)
        for rule in parts[0]
    }
    diagnostics = jax.device_get(work.compiled.diagnostics(state.server))
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **last._asdict(),
        "bytes_total": total,
        **{name: float(value) for name, value in diagnostics.items()},
        "every_round": {
            name: value[: (r - 1) % len(value) + 1].tolist()
            for name, value in dict(state.watched).items()
        },
        "seconds": float(np.mean(seconds)),
    }
