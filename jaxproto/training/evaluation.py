"""One evaluation, as the host sees it."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import rows
from jaxproto.config.build import Experiment
from jaxproto.config.cohorts import same_rows, tested_ids
from jaxproto.report import summary
from jaxproto.training.programs import State
from jaxproto.training.rounds import Round, Work
from jaxproto.training.store import ClientStore, Places, of_places
from jaxproto.training.threads import at_once
from jaxproto.types import Client, Shard, Tree

LISTED = 100  # clients whose bytes stand in the records one by one


class Outcome(NamedTuple):
    """What the programs of an evaluation tell the host."""

    correct: list[dict[str, np.ndarray]]  # per cohort: {rule: [K]}, or hits [T, B] of
    # a cohort that keeps nothing
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
        each = zip(clients, work.exp.test, strict=True)
        calls = [of_lanes(work, i, down, *own) for i, own in enumerate(each)]
        made = iter(at_once(call for lanes in calls for call in lanes))
        parts = [[next(made) for _ in lanes] for lanes in calls]
        correct = list(map(joined, parts, work.exp.test))
    else:
        correct = [
            from_store(work, work.store, down, i) for i in range(len(work.exp.cohorts))
        ]
    return jax.device_get(Outcome(correct, work.compiled.diagnostics(server)))


def of_lanes(work: Work, i: int, down: Tree, clients: Client, test) -> list[partial]:
    """The calls that evaluate a cohort, one for each of its lanes."""
    f, last = work.compiled.evaluate[i], (clients, work.examples, test)
    if work.compiled.put_back[i] is None:
        return [partial(f, down, *last)]
    numbers = range(work.exp.cohorts[i].lanes)
    return [partial(f, down, np.int32(n), *last) for n in numbers]


def joined(lanes: Sequence[dict], test: Tree) -> dict:
    """What the lanes of a cohort found, row by row."""
    if len(lanes) == 1:
        return lanes[0]
    count, found = len(jax.tree.leaves(test)[0]), jax.device_get(list(lanes))
    return {rule: rows.gathered([p[rule] for p in found], count) for rule in found[0]}


def from_store(work: Work, store: ClientStore, down: Tree, i: int) -> dict:
    """Correct predictions of a cohort, as many clients at a time as a round has."""
    cohort, test, parts = work.exp.cohorts[i], work.exp.test[i], []
    assert isinstance(test, Shard)
    asked = np.asarray(cohort.tested or range(len(cohort.ids)))
    for first in range(0, len(asked), cohort.room):
        chunk = slice(first, first + cohort.room)
        places = Places(asked[chunk], cohort.room)
        mine = Places(np.arange(len(asked))[chunk], cohort.room)
        clients, shard = store.take(i, places), of_places(test, mine)
        calls = of_lanes(work, i, down, clients, shard)
        found = joined(at_once(calls), shard)
        parts.append({r: np.asarray(a)[: len(places.at)] for r, a in found.items()})
    return {rule: np.concatenate([p[rule] for p in parts]) for rule in parts[0]}


def record(
    exp: Experiment, r: int, state: State, last: Round, seconds, told: Outcome
) -> dict:
    """One record of `metrics.jsonl`."""
    found, size_K = by_client(exp, told.correct)
    rules = {name: summary.accuracy(found[name], size_K) for name in found}
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
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
    found, size_K = by_client(exp, told.correct)
    id_K = np.array([i for cohort in exp.cohorts for i in tested_ids(cohort)])
    rules = {f"correct_{rule}": hits_K for rule, hits_K in found.items()}
    moved = {f"bytes_{way}": each[id_K] for way, each in last.bytes_by_client.items()}
    every = {"id": id_K, "test_examples": size_K, **rules, **moved}
    return {name: column[np.argsort(id_K)] for name, column in every.items()}


def _sample(exp: Experiment, evaluated: int) -> dict[str, int]:
    """How many clients were evaluated, where it was not all."""
    whole = evaluated == len(exp.counts.test)
    return {} if whole else {"evaluated_clients": evaluated}


def by_client(exp: Experiment, correct) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Correct predictions per rule, and examples, of every client that is evaluated.

    Args:
      correct: as in `Outcome`.
    """
    parts, sizes = [], []
    for cohort, test, told in zip(exp.cohorts, exp.test, correct, strict=True):
        if cohort.keeps:
            parts.append(told)
            sizes.append(np.asarray(test.size))
        else:
            own = [exp.partition.test[i] for i in tested_ids(cohort)]
            flat = {rule: hits.reshape(-1) for rule, hits in told.items()}
            parts.append({rule: hits_of(own, hits) for rule, hits in flat.items()})
            sizes.append(np.array([len(rows) for rows in own]))
    whole = {rule: np.concatenate([p[rule] for p in parts]) for rule in parts[0]}
    return whole, np.concatenate(sizes)


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
