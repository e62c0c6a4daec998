"""One evaluation, as the host sees it."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import devices, rows
from jaxproto.config.build import Experiment
from jaxproto.config.cohorts import distinct, same_rows, tested_ids
from jaxproto.devices import Layout
from jaxproto.metrics import ACCURACY, further
from jaxproto.report import measured, summary
from jaxproto.training import programs
from jaxproto.training.programs import State
from jaxproto.training.rounds import Round, Work
from jaxproto.training.store import ClientStore, Places, of_places
from jaxproto.training.threads import at_once
from jaxproto.types import Client, Shard, Tree

LISTED = 100  # clients whose bytes stand in the records one by one


class Outcome(NamedTuple):
    """What the programs of an evaluation tell the host."""

    sums: list[dict[str, Tree]]  # per cohort: {rule: {metric: [K, ...]}}, or what
    # `evaluate_network` says of a cohort that keeps nothing
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
    if work.store is None:
        tests = work.placed.test if work.placed else work.exp.test
        each = zip(clients, tests, strict=True)
        calls = [of_lanes(work, i, down, *own) for i, own in enumerate(each)]
        made = iter(at_once(call for lanes in calls for call in lanes))
        parts = [[next(made) for _ in lanes] for lanes in calls]
        sums = list(map(partial(joined, work.exp.layout), parts, work.exp.test))
    else:
        sums = [
            from_store(work, work.store, down, i) for i in range(len(work.exp.cohorts))
        ]
    return jax.device_get(Outcome(sums, work.compiled.diagnostics(server)))


def of_lanes(work: Work, i: int, down: Tree, clients: Client, test) -> list[partial]:
    """The calls that evaluate a cohort, one for each of its lanes."""
    f, last = work.compiled.evaluate[i], (clients, work.examples, test)
    number = programs.lanes(work.exp.cohorts[i], work.compiled.put_back[i])
    if number == 1:
        return [partial(f, down, *last)]
    return [partial(f, down, np.int32(n), *last) for n in range(number)]


def joined(layout: Layout | None, lanes: Sequence[dict], test: Tree) -> dict:
    """What the lanes of a cohort, or its devices, found, row by row."""
    count = len(jax.tree.leaves(test)[0])
    if layout is not None:
        return devices.undeal(devices.to_host(lanes[0]), count, layout.number)
    if len(lanes) == 1:
        return lanes[0]
    return jax.tree.map(lambda *a: rows.gathered(a, count), *jax.device_get(lanes))


def from_store(work: Work, store: ClientStore, down: Tree, i: int) -> dict:
    """Sums of a cohort, as many clients at a time as a round has."""
    cohort, test, parts = work.exp.cohorts[i], work.exp.test[i], []
    assert isinstance(test, Shard)
    asked = np.asarray(cohort.tested or range(len(cohort.ids)))
    room = store.room(cohort)
    for first in range(0, len(asked), room):
        chunk = slice(first, first + room)
        places = Places(asked[chunk], room)
        mine = Places(np.arange(len(asked))[chunk], room)
        clients, shard = store.take(i, places), of_places(test, mine)
        calls = of_lanes(work, i, down, clients, store.dealt(shard))
        found = joined(work.exp.layout, at_once(calls), shard)
        used = len(places.at)
        parts.append(jax.tree.map(lambda a, n=used: np.asarray(a)[:n], found))
    return jax.tree.map(lambda *a: np.concatenate(a), *parts)


def record(
    exp: Experiment, r: int, state: State, last: Round, seconds, told: Outcome
) -> dict:
    """One record of `metrics.jsonl`."""
    sums, size_K = by_client(exp, told.sums)
    right = measured.accuracies(sums)
    rules = {rule: summary.accuracy(n_K, size_K) for rule, n_K in right.items()}
    more = further(exp.cohorts[0].metrics)
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **({"metrics": measured.record(more, sums)} if more else {}),
        **_sample(exp, len(size_K)),
        **last._asdict(),
        "bytes_by_client": _listed(last),
        "bytes_total": total,
        **{name: float(value) for name, value in told.diagnostics.items()},
        "every_round": {
            name: value[: (r - 1) % len(value) + 1].tolist()
            for name, value in dict(state.watched).items()
        },
        "seconds": float(np.mean(seconds)),
    }


def _listed(last: Round) -> dict[str, list[int]]:
    """Bytes by client, of few clients."""
    by_client = last.bytes_by_client.items()
    return {way: each.tolist() for way, each in by_client if len(each) <= LISTED}


def columns(exp: Experiment, last: Round, told: Outcome) -> dict[str, np.ndarray]:
    """What an evaluation says of every client that it asked, in the order of ids."""
    sums, size_K = by_client(exp, told.sums)
    id_K = np.array([i for cohort in exp.cohorts for i in tested_ids(cohort)])
    right = measured.accuracies(sums).items()
    rules = {f"correct_{rule}": hits_K for rule, hits_K in right}
    rules |= measured.columns(further(exp.cohorts[0].metrics), sums)
    moved = {f"bytes_{way}": each[id_K] for way, each in last.bytes_by_client.items()}
    every = {"id": id_K, "test_examples": size_K, **rules, **moved}
    return {name: column[np.argsort(id_K)] for name, column in every.items()}


def _sample(exp: Experiment, evaluated: int) -> dict[str, int]:
    """How many clients were evaluated, where it was not all."""
    whole = evaluated == len(exp.counts.test)
    return {} if whole else {"evaluated_clients": evaluated}


def by_client(exp: Experiment, sums) -> tuple[dict[str, Tree], np.ndarray]:
    """Sums per rule and metric, and examples, of every client that is evaluated.

    Args:
      sums: as in `Outcome`.
    """
    parts, sizes = [], []
    for cohort, test, told in zip(exp.cohorts, exp.test, sums, strict=True):
        own = [exp.partition.test[i] for i in tested_ids(cohort)]
        size_K = np.asarray(test.size if cohort.keeps else [len(rows) for rows in own])
        sizes.append(size_K)
        if cohort.keeps:
            parts.append(told)
        elif isinstance(test, Shard):  # one for all clients of equal examples
            _, place = distinct(own)
            parts.append(jax.tree.map(lambda a, at=place: a[at], told))
        else:
            hits = {rule: of[ACCURACY].reshape(-1) for rule, of in told.items()}
            right = {rule: hits_of(own, hit_T) for rule, hit_T in hits.items()}
            parts.append({r: {ACCURACY: (n_K, size_K)} for r, n_K in right.items()})
    return jax.tree.map(lambda *a: np.concatenate(a), *parts), np.concatenate(sizes)


def hits_of(own: Sequence[np.ndarray], hit_T: np.ndarray) -> np.ndarray:
    """Correct predictions of each client [K].

    Args:
      own: examples of each client.
      hit_T: whether each of all their examples was right, in ascending order, and
        padding after them.
    """
    if same_rows(own):
        return np.full(len(own), hit_T[: len(own[0])].sum())
    every = np.unique(np.concatenate(own))
    right = np.zeros(every[-1] + 1, np.int64)
    right[every] = hit_T[: len(every)]
    return np.array([right[rows].sum() for rows in own])
