"""Records of the evaluations of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxproto.core.types import ArrayLike, Tree
from jaxproto.data import domains
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import evaluated_ids, evaluated_rows
from jaxproto.metrics import besides_accuracy
from jaxproto.summary import metric_record, run_summary

TEST, VALIDATION = 0, 1  # splits of `evaluated_rows`
# most clients for which a record lists bytes, and correct predictions
MAX_LISTED_CLIENTS, MAX_LISTED_ACCURACIES = 100, 1000

# per cohort: {rule: {metric: [S * K, ...]}} of its evaluated clients, split after split
CohortSums = list[dict[str, Tree]]


def sums_of_clients(exp: Experiment, results: Sequence[Tree]) -> CohortSums:
    """Returns sums of every evaluated client, from results of `Scoring.evaluate`."""
    return [
        cohort.scoring.by_client(evaluated_rows(cohort, exp.partition), result)
        for cohort, result in zip(exp.cohorts, results, strict=True)
    ]


def in_order_of_places(rows: Sequence[tuple[np.ndarray, Tree]]) -> Tree:
    """Returns rows in the order of their places.

    Args:
      rows: Places [R], -1 for unused rows, and arrays [R, ...] of each call.
    """
    places, trees = zip(*rows, strict=True)
    place = np.concatenate(places)
    if np.array_equal(place, np.arange(len(place))) and len(trees) == 1:
        return trees[0]  # also with a leading axis of federations
    order = np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :]
    return jax.tree.map(lambda *a: np.concatenate(a)[order], *trees)


def record(
    exp: Experiment,
    r: int,
    last: Mapping[str, Any],
    cohort_sums: CohortSums,
    counters: Sequence,
    diagnostics: Mapping[str, ArrayLike],
    seconds: Sequence[float],
) -> dict:
    """Returns the record of an evaluation for `metrics.jsonl`.

    Args:
      last: Summary of round `r`, from 1.
      counters: `traffic` and `watched` of the state after round `r`. The record has the
        latter, diagnostics since the previous record, under `every_round`.
      diagnostics: Of round `r`.
      seconds: Of the rounds since the previous record.
    """
    sums, size_K, id_K = by_client(exp, cohort_sums)
    traffic, watched = counters
    correct = metric_record.accuracies(sums)
    rules = {rule: run_summary.accuracy(n_K, size_K) for rule, n_K in correct.items()}
    further = besides_accuracy(exp.metrics)
    all_evaluated = len(id_K) == len(exp.counts.test)
    total = dict(zip(("up", "down"), traffic.tolist(), strict=True))
    return {
        "round": r,
        "rules": rules,
        **_validation(exp, cohort_sums),
        **({"metrics": metric_record.metric_record(further, sums)} if further else {}),
        **({} if all_evaluated else {"evaluated_clients": len(id_K)}),
        **last,
        "bytes_by_client": {
            direction: bytes_K.tolist()
            for direction, bytes_K in last["bytes_by_client"].items()
            if len(bytes_K) <= MAX_LISTED_CLIENTS
        },
        **_correct_by_client(id_K, correct, size_K),
        **correct_by_domain(exp, id_K, correct, size_K),
        "bytes_total": total,
        **{name: float(value) for name, value in diagnostics.items()},
        "every_round": {
            name: value[: (r - 1) % len(value) + 1].tolist()
            for name, value in dict(watched).items()
        },
        "seconds": float(np.mean(seconds)),
    }


def _validation(exp: Experiment, sums: CohortSums) -> dict[str, dict]:
    """Returns the accuracies of the clients that have validation examples."""
    if not exp.partition.validation:
        return {}
    by_rule, size_K, _ = by_client(exp, sums, VALIDATION)
    # of few nodes, none may have validation examples
    correct = metric_record.accuracies(by_rule) if size_K.any() else {}
    rules = {rule: run_summary.accuracy(n_K, size_K) for rule, n_K in correct.items()}
    return {"validation": rules}


def _correct_by_client(
    id_K: np.ndarray, correct, size_K: np.ndarray
) -> dict[str, dict]:
    """Returns `by_client`, columns of whole numbers, if there are few clients."""
    if len(size_K) > MAX_LISTED_ACCURACIES:
        return {}
    columns = correct_columns(id_K, correct, size_K).items()
    return {"by_client": {name: a.astype(int).tolist() for name, a in columns}}


def correct_by_domain(
    exp: Experiment, id_K: np.ndarray, correct, size_K: np.ndarray
) -> dict[str, dict]:
    """Returns `by_domain`, if the test examples of each client are from one domain."""
    names, columns = exp.dataset.domains, correct_columns(id_K, correct, size_K)
    tests = [exp.partition.test[i] for i in columns.pop("id")]
    domain_K = domains.domains_of_clients(exp.dataset, tests)
    if domain_K is None or len(names) > MAX_LISTED_ACCURACIES:
        return {}
    sums = {k: np.bincount(domain_K, a, len(names)) for k, a in columns.items()}
    whole = {k: a.astype(int).tolist() for k, a in sums.items()}
    return {"by_domain": {"name": list(names), **whole}}


def correct_columns(
    id_K: np.ndarray, correct: Mapping[str, np.ndarray], size_K: np.ndarray, **others
) -> dict[str, np.ndarray]:
    """Returns columns with a row per evaluated client, in the order of client ids.

    Args:
      correct: Correct predictions by rule, [K] in the order of `id_K`.
      others: Other columns, [K, ...] in the order of `id_K`.
    """
    rules = {f"correct_{rule}": hits_K for rule, hits_K in correct.items()}
    columns = {"id": id_K, "test_examples": size_K, **rules, **others}
    return {name: column[np.argsort(id_K)] for name, column in columns.items()}


def client_columns(
    exp: Experiment, last: Mapping[str, Any], cohort_sums: CohortSums
) -> dict[str, np.ndarray]:
    """Returns `correct_columns` with all other metrics, and bytes of the round."""
    sums, size_K, id_K = by_client(exp, cohort_sums)
    others = metric_record.client_columns(besides_accuracy(exp.metrics), sums)
    columns = correct_columns(id_K, metric_record.accuracies(sums), size_K, **others)
    for direction, bytes_K in last["bytes_by_client"].items():
        columns[f"bytes_{direction}"] = bytes_K[columns["id"]]
    return columns


def by_client(
    exp: Experiment, sums: CohortSums, split: int = TEST
) -> tuple[dict[str, Tree], np.ndarray, np.ndarray]:
    """Returns sums by rule and metric, numbers of examples, and ids of clients.

    Clients that are not evaluated or whose results are left out have no row; `split` is
    `TEST` or `VALIDATION`.
    """
    trees, rows = [], []
    for cohort, cohort_sums in zip(exp.cohorts, sums, strict=True):
        if not cohort.counted:  # the sample has no client of this cohort
            continue
        splits = evaluated_rows(cohort, exp.partition)
        count = len(splits[split])
        chosen = slice(split * count, (split + 1) * count)
        trees.append(jax.tree.map(lambda a, chosen=chosen: a[chosen], cohort_sums))
        rows += splits[split]
    size_K = np.array([len(row) for row in rows])
    id_K = np.array([i for cohort in exp.cohorts for i in evaluated_ids(cohort)])
    scored_K = np.asarray(exp.method.scored(id_K))
    joined = jax.tree.map(lambda *a: np.concatenate(a), *trees)
    return jax.tree.map(lambda a: a[scored_K], (joined, size_K, id_K))
