"""Values of the metrics of evaluations: in records, per client, in summaries."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxproto.core.types import Tree
from jaxproto.metrics import ACCURACY, Metric, by_client, is_least, pooled
from jaxproto.storage.records import summarize_series, validation_accuracies

Sums = Mapping[str, Mapping[str, Tree]]  # {rule: {metric: [K, ...]}}
# average of a metric in summaries -> that of accuracies
AVERAGES = {"pooled": "pooled", "mean": "client_mean"}


def accuracies(sums: Sums) -> dict[str, np.ndarray]:
    """Returns the correct predictions of every client, {rule: [K]}."""
    return {rule: by_metric[ACCURACY][0] for rule, by_metric in sums.items()}


def metric_record(metrics: Sequence[Metric], sums: Sums) -> dict[str, dict[str, dict]]:
    """Returns {rule: {metric: pooled value and values over clients}} for a record."""
    record: dict[str, dict[str, dict]] = {rule: {} for rule in sums}
    for rule, by_metric in sums.items():
        for metric in metrics:
            of_clients = by_client(metric, by_metric[metric.name])
            for name, value in pooled(metric, by_metric[metric.name]).items():
                record[rule][name] = summarize_metric(value, of_clients[name])
    return record


def client_columns(metrics: Sequence[Metric], sums: Sums) -> dict[str, np.ndarray]:
    """Returns values of clients by `metric_rule`: [K], or [K, C] for each class."""
    return {
        f"{name}_{rule}": value
        for rule, by_metric in sums.items()
        for metric in metrics
        for name, value in by_client(metric, by_metric[metric.name]).items()
    }


def summarize_metric(total: np.ndarray, value_K: np.ndarray) -> dict:
    """Returns the pooled value, and mean and spread over clients that have a value.

    A metric per class has {class: value} for each, and no spread.

    Args:
      total: Value over all examples, [] or [C].
      value_K: Values of clients, [K] or [K, C]; nan where a client has none.
    """
    if total.ndim:
        mean_C = [_over_known(of_class_K, np.mean) for of_class_K in value_K.T]
        return {"pooled": _by_class(total), "mean": _by_class(mean_C)}
    num_known = int(np.sum(~np.isnan(value_K)))
    clients = {} if num_known == len(value_K) else {"clients": num_known}
    reductions = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}
    spread = {name: _over_known(value_K, f) for name, f in reductions.items()}
    return {"pooled": float(total), **spread, **clients}


def _over_known(value_K: np.ndarray, f) -> float:
    known = value_K[~np.isnan(value_K)]
    return float(f(known)) if len(known) else np.nan


def _by_class(value_C) -> dict[str, float]:
    return {str(c): float(value) for c, value in enumerate(value_C)}


def metric_summary(
    records: Sequence[Mapping], metrics: Sequence[Metric]
) -> dict[str, dict[str, dict]]:
    """Returns the best, final and last mean values, as `records.rule_summary` does.

    The best of a metric like the loss is the smallest; with validation examples, it is
    the value in the round of the best validation accuracy. A metric per class has its
    final value alone.

    Returns:
      {rule: {metric: {"pooled": ..., "mean": ...}}}; {} for records without metrics.
    """
    by_name = {metric.name: metric for metric in metrics}
    last = records[-1].get("metrics", {}) if records else {}

    def summarize(rule, name, average):
        path = ("metrics", rule, name, average)
        rows = [(r["round"], value_at(r, *path)) for r in records]
        if isinstance(rows[-1][1], Mapping):
            return {"final": rows[-1][1]}
        chosen_by = validation_accuracies(records, rule, AVERAGES[average])
        return summarize_series(rows, bool(is_least(name, by_name)), chosen_by)

    return {
        rule: {name: {k: summarize(rule, name, k) for k in AVERAGES} for name in names}
        for rule, names in last.items()
    }


def value_at(record: Mapping | None, *path: str) -> Any:
    """Returns the value at the end of a path; None if the path ends before."""
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
