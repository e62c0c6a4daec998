"""Values of the metrics of evaluations: in records, per client, in summaries."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxproto.metrics import ACCURACY, Metric, by_client, pooled
from jaxproto.storage.records import summarize_series, validation_accuracies
from jaxproto.types import Tree

Sums = Mapping[str, Mapping[str, Tree]]  # {rule: {metric: [K, ...]}}
# averages that the summary of a run has -> those of accuracies
AVERAGES = {"pooled": "pooled", "mean": "client_mean"}


def accuracies(sums: Sums) -> dict[str, np.ndarray]:
    """Returns the correct predictions of every client, {rule: [K]}."""
    return {rule: of[ACCURACY][0] for rule, of in sums.items()}


def metric_record(metrics: Sequence[Metric], sums: Sums) -> dict[str, dict[str, dict]]:
    """Returns {rule: {metric: pooled value and values over clients}} for a record."""
    record: dict[str, dict[str, dict]] = {rule: {} for rule in sums}
    for rule, of in sums.items():
        for metric in metrics:
            each = by_client(metric, of[metric.name])
            for name, value in pooled(metric, of[metric.name]).items():
                record[rule][name] = summarize_metric(value, each[name])
    return record


def client_columns(metrics: Sequence[Metric], sums: Sums) -> dict[str, np.ndarray]:
    """Returns values of clients by `metric_rule`: [K], or [K, C] for each class."""
    return {
        f"{name}_{rule}": each
        for rule, of in sums.items()
        for metric in metrics
        for name, each in by_client(metric, of[metric.name]).items()
    }


def summarize_metric(total: np.ndarray, each: np.ndarray) -> dict:
    """Returns the pooled value, and mean and spread over clients that have a value.

    A metric per class has {class: value}, and no spread.

    Args:
      total: Value over all examples, [] or [C].
      each: Values of clients, [K] or [K, C]; nan where a client has none.
    """
    if total.ndim:
        mean_C = [_over(value_K, np.mean) for value_K in each.T]
        return {"pooled": _by_class(total), "mean": _by_class(mean_C)}
    known = int(np.sum(~np.isnan(each)))
    some = {} if known == len(each) else {"clients": known}
    spread = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}
    over = {name: _over(each, f) for name, f in spread.items()}
    return {"pooled": float(total), **over, **some}


def _over(each: np.ndarray, f) -> float:
    known = each[~np.isnan(each)]
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
      {rule: {metric: {"pooled": ..., "mean": ...}}}; {} of records without metrics.
    """
    least = {metric.name for metric in metrics if metric.least}
    last = records[-1].get("metrics", {}) if records else {}

    def one(rule, name, average):
        path = ("metrics", rule, name, average)
        rows = [(r["round"], value_at(r, *path)) for r in records]
        if isinstance(rows[-1][1], Mapping):
            return {"final": rows[-1][1]}
        chosen_by = validation_accuracies(records, rule, AVERAGES[average])
        return summarize_series(rows, name in least, chosen_by)

    return {
        rule: {name: {k: one(rule, name, k) for k in AVERAGES} for name in of}
        for rule, of in last.items()
    }


def value_at(record: Mapping | None, *path: str) -> Any:
    """Returns the value at the end of a path; None if the path ends before."""
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
