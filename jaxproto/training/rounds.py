"""One round and one evaluation, as the host sees them."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.config.build import Experiment
from jaxproto.report import summary
from jaxproto.training import programs
from jaxproto.training.programs import Begin, Programs, State
from jaxproto.types import Pool, Tree
from jaxproto.wire import HEADER, codec


class Diverged(RuntimeError):
    """A loss, an upload or a parameter is no longer a finite number."""


class Work(NamedTuple):
    """What every round of a run needs."""

    exp: Experiment
    pool: Pool
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
    run, at = work.compiled, programs.at(work.seed, r)
    begin = run.begin(at, state.server)
    server, begin, probes = first_exchange(work, at, begin, state)
    each = at_once(
        partial(train, at, begin.turnout, server, clients, work.pool, shard)
        for train, clients, shard in zip(
            run.train, state.clients, work.exp.train, strict=True
        )
    )
    clients, reports = zip(*each, strict=True)
    if work.exp.check_wire:
        check_wire(work.exp, [*probes, *reports], server)
    server = run.update(at, server, tuple(p.up for p in reports))
    both = ([p._replace(up=()) for p in part] for part in (reports, probes))
    seen, probes = jax.device_get(tuple(both))  # sizes and losses, never the uploads
    check_finite(work.exp, r, seen)
    learnt = look_back(work.exp, begin, seen, probes)
    jax.block_until_ready(server)
    traffic = state.traffic + np.array([learnt.bytes_up, learnt.bytes_down], np.int64)
    seen = watch(work, r, server, state.watched)
    return State(server, clients, traffic, seen), learnt


def unwatched(compiled: Programs, server: Tree, most: int) -> dict[str, np.ndarray]:
    """Room for what `look` says of `most` rounds; nan until then."""
    return {name: np.full(most, np.nan) for name in compiled.look(server)}


def watch(work: Work, r: int, server: Tree, watched: Tree) -> Tree:
    """`watched` with this round in its place; nothing is asked where it is empty."""
    if not watched:
        return watched
    now = jax.device_get(work.compiled.look(server))
    return {
        name: np.where(np.arange(len(old)) == r % len(old), float(now[name]), old)
        for name, old in watched.items()
    }


def at_once(calls: Iterable[partial]) -> list:
    """Results of compiled programs that need nothing of each other.

    On CPU, XLA runs the programs of one Python thread one after the other, and those
    with small products leave cores idle: one thread per core, and large networks
    first, made a round of Ht0 a quarter faster (benchmarks/RESULTS.md).
    """
    calls = list(calls)
    threads = min(len(calls), os.cpu_count() or 1)
    if threads < 2:
        return [call() for call in calls]
    size = [sum(a.nbytes for a in jax.tree.leaves(call.args)) for call in calls]
    results = [None] * len(calls)
    with ThreadPoolExecutor(threads) as pool:
        order = np.argsort(size)[::-1]
        for i, result in zip(order, pool.map(lambda i: calls[i](), order), strict=True):
            results[i] = result
    return results


def first_exchange(work: Work, at, begin: Begin, state: State):
    """The server after the exchange before training, if the method has one."""
    run, args = work.compiled, (begin.turnout, state.server)
    probes = at_once(
        partial(probe, *args, clients, work.pool, shard)
        for probe, clients, shard in zip(
            run.probe, state.clients, work.exp.train, strict=bool(run.probe)
        )
    )
    if not probes:
        return state.server, begin, []
    server, sent, size = run.answer(at, state.server, tuple(p.up for p in probes))
    both = size + HEADER  # the broadcast's two halves are a message each
    return server, begin._replace(sent=sent, bytes=both), probes


def check_finite(exp: Experiment, r: int, seen):
    """Raises Diverged for the first client whose numbers are not finite."""
    half = " Values beyond 65,504 do not fit wire.up=float16; bfloat16 holds them."
    hint = half if exp.formats.up == "float16" else ""
    for cohort, p in zip(exp.cohorts, seen, strict=True):
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


def look_back(exp: Experiment, begin: Begin, seen, probes) -> Round:
    """Sums over clients of what a round moved and lost."""
    stepped = sum(int((p.steps > 0).sum()) for p in seen)
    ids = [i for cohort in exp.cohorts for i in cohort.ids]
    up, trains = np.zeros(len(ids), np.int64), np.asarray(begin.turnout.trains)
    for parts in filter(None, (seen, probes)):
        up[ids] += np.concatenate([p.bytes for p in parts])
    down = trains * int(begin.bytes)
    return Round(
        loss=sum(float(p.loss.sum()) for p in seen) / max(stepped, 1),
        participants=int(trains.sum()),
        scalars_up=sum(int(p.sent.sum()) for p in [*seen, *probes]),
        scalars_down=int(begin.sent) * int(trains.sum()),
        bytes_up=int(up.sum()),
        bytes_down=int(down.sum()),
        bytes_by_client={"up": up.tolist(), "down": down.tolist()},
    )


def evaluate(work: Work, r: int, state: State, seen: Round, seconds) -> dict:
    """One record of `metrics.jsonl`: every rule on every client's test data.

    What `look` says stands there for round `r`, and under `every_round` for each round
    since the record before, if the state holds it.
    """
    exp, rows = work.exp, zip(work.compiled.evaluate, state.clients, strict=True)
    parts = jax.device_get(
        at_once(
            partial(f, state.server, clients, work.pool, shard)
            for (f, clients), shard in zip(rows, exp.test, strict=True)
        )
    )
    sizes = np.concatenate([np.asarray(s.size) for s in exp.test])
    rules = {
        rule: summary.accuracy(np.concatenate([p[rule] for p in parts]), sizes)
        for rule in parts[0]
    }
    look = jax.device_get(work.compiled.look(state.server))
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **seen._asdict(),
        "bytes_total": total,
        **{name: float(value) for name, value in look.items()},
        "every_round": {
            name: value[: (r - 1) % len(value) + 1].tolist()
            for name, value in dict(state.watched).items()
        },
        "seconds": float(np.mean(seconds)),
    }
