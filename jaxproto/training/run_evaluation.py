"""Evaluation of a run on the host: calls of compiled programs, and records."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.data import domains
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import evaluated_ids, evaluated_rows
from jaxproto.federation import Model
from jaxproto.metrics import besides_accuracy
from jaxproto.summary import metric_record, run_summary
from jaxproto.training.programs import State
from jaxproto.training.rounds import RoundEnvironment, RoundSummary
from jaxproto.training.threads import run_parallel
from jaxproto.types import Tree

TEST, VALIDATION = 0, 1  # parts of `evaluated_rows`
MAX_LISTED_CLIENTS = 100  # records list bytes by client for at most so many clients
MAX_LISTED_ACCURACIES = 1000  # and correct predictions for so many evaluated clients


class EvaluationSums(NamedTuple):
    """Results of the programs of an evaluation, on the host."""

    sums: list[dict[str, Tree]]  # per cohort: {rule: {metric: [K, ...]}}, or what
    # the `Scoring` of the cohort returns for several parts, or without state
    diagnostics: dict[str, np.ndarray]


def evaluate(
    work: RoundEnvironment, r: int, state: State, last: RoundSummary, seconds
) -> dict:
    """Evaluates every rule on every client's data; returns the record.

    It has diagnostics of round `r`, and under `every_round` of each round since the
    previous record, if the state has them.
    """
    outcome = evaluate_model(work, Model(state.server, state.clients))
    return record(work.exp, r, state, last, seconds, outcome)


def evaluate_model(work: RoundEnvironment, model: Model) -> EvaluationSums:
    """Evaluates every cohort with the compiled programs."""
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
    return EvaluationSums([in_order_of_places(part) for part in parts], diagnostics)


def in_order_of_places(parts: Sequence[tuple[np.ndarray, Tree]]) -> Tree:
    """Returns rows in the order of their places.

    Args:
      parts: Places [R], -1 for unused rows, and arrays [R, ...] of each call.
    """
    places, trees = zip(*parts, strict=True)
    place = np.concatenate(places)
    if np.array_equal(place, np.arange(len(place))) and len(trees) == 1:
        return trees[0]  # also of several federations, with their axis
    order = np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :]
    return jax.tree.map(lambda *a: np.concatenate(a)[order], *trees)


def record(
    exp: Experiment,
    r: int,
    state: State,
    last: RoundSummary,
    seconds,
    outcome: EvaluationSums,
) -> dict:
    """Returns the record of an evaluation for `metrics.jsonl`."""
    sums, size_K, id_K = by_client(exp, outcome.sums)
    right = metric_record.accuracies(sums)
    rules = {rule: run_summary.accuracy(n_K, size_K) for rule, n_K in right.items()}
    more, part = besides_accuracy(exp.metrics), len(id_K) != len(exp.counts.test)
    total = dict(zip(("up", "down"), state.traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **_validation(exp, outcome.sums),
        **({"metrics": metric_record.metric_record(more, sums)} if more else {}),
        **({"evaluated_clients": len(id_K)} if part else {}),
        **last._asdict(),
        "bytes_by_client": {
            way: bytes_K.tolist()
            for way, bytes_K in last.bytes_by_client.items()
            if len(bytes_K) <= MAX_LISTED_CLIENTS
        },
        **_correct_by_client(id_K, right, size_K),
        **correct_by_domain(exp, id_K, right, size_K),
        "bytes_total": total,
        **{name: float(value) for name, value in outcome.diagnostics.items()},
        "every_round": {
            name: value[: (r - 1) % len(value) + 1].tolist()
            for name, value in dict(state.watched).items()
        },
        "seconds": float(np.mean(seconds)),
    }


def _validation(exp: Experiment, sums) -> dict[str, dict]:
    """Returns the accuracies of the clients that have validation examples."""
    if not exp.partition.validation:
        return {}
    by_rule, size_K, _ = by_client(exp, sums, VALIDATION)
    right = metric_record.accuracies(by_rule) if size_K.any() else {}  # on few nodes
    rules = {rule: run_summary.accuracy(n_K, size_K) for rule, n_K in right.items()}
    return {"validation": rules}


def _correct_by_client(id_K: np.ndarray, right, size_K: np.ndarray) -> dict[str, dict]:
    """Returns `by_client`, columns of whole numbers, if there are few clients."""
    if len(size_K) > MAX_LISTED_ACCURACIES:
        return {}
    columns = correct_columns(id_K, right, size_K).items()
    return {"by_client": {name: a.astype(int).tolist() for name, a in columns}}


def correct_by_domain(
    exp: Experiment, id_K: np.ndarray, right, size_K: np.ndarray
) -> dict[str, dict]:
    """Returns `by_domain`, if the test examples of each client are from one domain."""
    names = exp.dataset.domains
    tests = [exp.partition.test[i] for i in id_K]
    domain_K = domains.domains_of_clients(exp.dataset, tests)
    if domain_K is None or len(names) > MAX_LISTED_ACCURACIES:
        return {}
    columns = {"test_examples": size_K}
    columns |= {f"correct_{rule}": hits_K for rule, hits_K in right.items()}
    sums = {k: np.bincount(domain_K, a, len(names)) for k, a in columns.items()}
    whole = {k: a.astype(int).tolist() for k, a in sums.items()}
    return {"by_domain": {"name": list(names), **whole}}


def correct_columns(
    id_K: np.ndarray, right: Mapping[str, np.ndarray], size_K: np.ndarray, **more
) -> dict[str, np.ndarray]:
    """Returns columns with a row per evaluated client, by client id.

    Args:
      right: Correct predictions by rule; this and others in the order of `id_K`.
    """
    rules = {f"correct_{rule}": hits_K for rule, hits_K in right.items()}
    every = {"id": id_K, "test_examples": size_K, **rules, **more}
    return {name: column[np.argsort(id_K)] for name, column in every.items()}


def client_columns(
    exp: Experiment, last: RoundSummary, outcome: EvaluationSums
) -> dict[str, np.ndarray]:
    """Returns `correct_columns` with all other metrics, and bytes of the round."""
    sums, size_K, id_K = by_client(exp, outcome.sums)
    more = metric_record.client_columns(besides_accuracy(exp.metrics), sums)
    columns = correct_columns(id_K, metric_record.accuracies(sums), size_K, **more)
    moved = last.bytes_by_client.items()
    return columns | {f"bytes_{way}": each[columns["id"]] for way, each in moved}


def by_client(
    exp: Experiment, sums, part: int = TEST
) -> tuple[dict[str, Tree], np.ndarray, np.ndarray]:
    """Returns sums per rule and metric, examples and ids, of evaluated clients.

    Args:
      sums: See `EvaluationSums`.
      part: `TEST` or `VALIDATION`.
    """
    parts, rows = [], []
    for cohort, each in zip(exp.cohorts, sums, strict=True):
        of_cohort = evaluated_rows(cohort, exp.partition)
        summed, count = cohort.scoring.by_client(of_cohort, each), len(of_cohort[part])
        which = slice(part * count, (part + 1) * count)
        parts.append(jax.tree.map(lambda a, which=which: a[which], summed))
        rows += of_cohort[part]
    size_K = np.array([len(row) for row in rows])
    id_K = np.array([i for cohort in exp.cohorts for i in evaluated_ids(cohort)])
    scored_K = np.asarray(exp.method.scored(id_K))
    every = jax.tree.map(lambda *a: np.concatenate(a), *parts), size_K, id_K
    return jax.tree.map(lambda a: a[scored_K], every)
