"""What the metrics of an evaluation say: in its record, per client, in the summary."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxproto import metrics as metrics_
from jaxproto.metrics import ACCURACY, Metric
from jaxproto.storage import records as records_
from jaxproto.types import Tree

Sums = Mapping[str, Mapping[str, Tree]]  # {rule: {metric: [K, ...]}}
AVERAGES = ("pooled", "mean")  # of which the summary has best, final, mean of the last


def accuracies(sums: Sums) -> dict[str, np.ndarray]:
    """Correct predictions of every client, {rule: [K]}."""
    return {rule: of[ACCURACY][0] for rule, of in sums.items()}


def metric_record(metrics: Sequence[Metric], sums: Sums) -> dict[str, dict[str, dict]]:
    """{rule: {metric: values over all examples, and over clients}}, as in a record."""
    return {
        rule: {
            name: summarize_metric(value, each[name])
            for metric in metrics
            for each in [metrics_.by_client(metric, of[metric.name])]
            for name, value in metrics_.pooled(metric, of[metric.name]).items()
        }
        for rule, of in sums.items()
    }


def client_columns(metrics: Sequence[Metric], sums: Sums) -> dict[str, np.ndarray]:
    """The values of every client by `metric_rule`: [K], or [K, C] of every class."""
    return {
        f"{name}_{rule}": each
        for rule, of in sums.items()
        for metric in metrics
        for name, each in metrics_.by_client(metric, of[metric.name]).items()
    }


def summarize_metric(pooled: np.ndarray, each: np.ndarray) -> dict:
    """Of all examples, and mean and spread over the clients for which it is defined.

    Of one value per class, the mean over clients alone, as {class: value}.

    Args:
      pooled: [] or [C].
      each: [K] or [K, C]; nan where a client has none.
    """
    if pooled.ndim:
        mean_C = [_over(value_K, np.mean) for value_K in each.T]
        return {"pooled": _by_class(pooled), "mean": _by_class(mean_C)}
    there = int(np.sum(~np.isnan(each)))
    some = {} if there == len(each) else {"clients": there}
    spread = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}
    over = {name: _over(each, f) for name, f in spread.items()}
    return {"pooled": float(pooled), **over, **some}


def _over(each: np.ndarray, f) -> float:
    there = each[~np.isnan(each)]
    return float(f(there)) if len(there) else np.nan


def _by_class(value_C) -> dict[str, float]:
    return {str(c): float(value) for c, value in enumerate(value_C)}


def metric_summary(
    records: Sequence[Mapping], metrics: Sequence[Metric]
) -> dict[str, dict[str, dict]]:
    """Best, final and mean of the last evaluations, as `records.rule_summary` has them.

    The best of a metric like the loss is the smallest. Of one value per class there is
    the final one alone.

    Args:
      records: of `metrics.jsonl`.
      metrics: for their best values.

    Returns:
      {rule: {metric: {"pooled": ..., "mean": ...}}}; {} of records without metrics.
    """
    least = {metric.name for metric in metrics if metric.least}
    last = records[-1].get("metrics", {}) if records else {}

    def one(rule, name, average):
        path = ("metrics", rule, name, average)
        rows = [(r["round"], _at(r, path)) for r in records]
        if isinstance(rows[-1][1], Mapping):
            return {"final": rows[-1][1]}
        return records_.summarize_series(rows, name in least)

    return {
        rule: {name: {k: one(rule, name, k) for k in AVERAGES} for name in of}
        for rule, of in last.items()
    }


def _at(record: Mapping, path: Sequence[str]):
    """What stands at the end of a path; None if it ends before."""
    found: Any = record
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
