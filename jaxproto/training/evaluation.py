"""One evaluation, as the host sees it."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import evaluated_ids
from jaxproto.federation import Model
from jaxproto.metrics import besides_accuracy
from jaxproto.summary import metric_record, run_summary
from jaxproto.training.programs import State
from jaxproto.training.rounds import RoundEnvironment, RoundSummary
from jaxproto.training.threads import run_parallel
from jaxproto.types import Tree

MAX_LISTED_CLIENTS = 100  # clients whose bytes stand in the records one by one


class EvaluationSums(NamedTuple):
    """What the programs of an evaluation tell the host."""

    sums: list[dict[str, Tree]]  # per cohort: {rule: {metric: [K, ...]}}, or what
    # `evaluate_examples` returns for clients that keep no state
    diagnostics: dict[str, np.ndarray]


def evaluate(
    work: RoundEnvironment, r: int, state: State, last: RoundSummary, seconds
) -> dict:
    """One record of `metrics.jsonl`: every rule on every client's test data.

    What `diagnostics` says stands there for round `r`, and under `every_round` for each
    round since the record before, if the state holds it.
    """
    told = run_evaluation(work, Model(state.server, state.clients))
    return record(work.exp, r, state, last, seconds, told)


def run_evaluation(work: RoundEnvironment, model: Model) -> EvaluationSums:
    """Evaluates every cohort, as far as compiled programs do it."""
    run, down = work.compiled, work.compiled.broadcast(model.server).message
    parts: list[list[tuple[np.ndarray, Tree]]] = [[] for _ in work.exp.cohorts]
    for chunks in work.store.evaluated(model.clients):
        calls = [
            partial(run.evaluate[c.cohort], down, c.clients, work.examples, c.tests)
            for c in chunks
        ]
        for c, sums in zip(chunks, mesh.to_host(run_parallel(calls)), strict=True):
            parts[c.cohort].append((c.place, sums))
    diagnostics = jax.device_get(run.diagnostics(model.server))
    return EvaluationSums([merge_lanes(part) for part in parts], diagnostics)


def merge_lanes(parts: Sequence[tuple[np.ndarray, Tree]]) -> Tree:
    """Returns rows in the order of their places.

    Args:
      parts: places [R], -1 for unused rows, and arrays [R, ...] of some calls.
    """
    places, trees = zip(*parts, strict=True)
    place = np.concatenate(places)
    if np.array_equal(place, np.arange(len(place))) and len(trees) == 1:
        return trees[0]  # of several federations, too, with their axis
    order = np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :]
    return jax.tree.map(lambda *a: np.concatenate(a)[order], *trees)


def record(
    exp: Experiment,
    r: int,
    state: State,
    last: RoundSummary,
    seconds,
    told: EvaluationSums,
) -> dict:
    """One record of `metrics.jsonl`."""
    sums, size_K = by_client(exp, told.sums)
    right = metric_record.accuracies(sums)
    rules = {rule: run_summary.accuracy(n_K, size_K) for rule, n_K in right.items()}
    more = besides_accuracy(exp.metrics)
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **({"metrics": metric_record.metric_record(more, sums)} if more else {}),
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


def _listed(last: RoundSummary) -> dict[str, list[int]]:
    """Bytes by client, of few clients."""
    by_client = last.bytes_by_client.items()
    return {
        way: each.tolist() for way, each in by_client if len(each) <= MAX_LISTED_CLIENTS
    }


def client_columns(
    exp: Experiment, last: RoundSummary, told: EvaluationSums
) -> dict[str, np.ndarray]:
    """What an evaluation says of every client that it asked, in the order of ids."""
    sums, size_K = by_client(exp, told.sums)
    id_K = np.array([i for cohort in exp.cohorts for i in evaluated_ids(cohort)])
    right = metric_record.accuracies(sums).items()
    rules = {f"correct_{rule}": hits_K for rule, hits_K in right}
    rules |= metric_record.client_columns(besides_accuracy(exp.metrics), sums)
    moved = {f"bytes_{way}": each[id_K] for way, each in last.bytes_by_client.items()}
    every = {"id": id_K, "test_examples": size_K, **rules, **moved}
    return {name: column[np.argsort(id_K)] for name, column in every.items()}


def _sample(exp: Experiment, evaluated: int) -> dict[str, int]:
    """How many clients were evaluated, where it was not all."""
    whole = evaluated == len(exp.counts.test)
    return {} if whole else {"evaluated_clients": evaluated}


def by_client(exp: Experiment, sums) -> tuple[dict[str, Tree], np.ndarray]:
    """Returns sums per rule and metric, and examples, of every client evaluated.

    Args:
      sums: as in `EvaluationSums`.
    """
    rows = [[exp.partition.test[i] for i in evaluated_ids(c)] for c in exp.cohorts]
    each = zip(exp.cohorts, rows, sums, strict=True)
    parts = [
        cohort.scoring.by_client(rows_of_client, told)
        for cohort, rows_of_client, told in each
    ]
    size_K = np.array(
        [len(rows_of_client) for cohort in rows for rows_of_client in cohort]
    )
    return jax.tree.map(lambda *a: np.concatenate(a), *parts), size_K
