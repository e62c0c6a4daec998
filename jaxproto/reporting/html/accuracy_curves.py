"""Accuracies over rounds, bytes and seconds: mean, least and largest over seeds."""

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxproto.reporting.compare.columns import Part
from jaxproto.reporting.compare.paper_cells import published_for
from jaxproto.reporting.compare.paper_rules import published_rule
from jaxproto.reporting.html.run_view import (
    SeedGroupView,
    bytes_until,
    number,
    seconds_until,
)

ACCURACY = "accuracy"
AVERAGES = {  # name in records -> average
    "pooled": "pooled",
    "client_mean": "client_mean",
    "mean": "client_mean",
}
Key = tuple[str, str, str]  # measure, rule, average
BYTES, SECONDS = ("bytes", "", ""), ("seconds", "", "")


class Curve(NamedTuple):
    """Numbers of a line at each of its evaluations; None where there is no number."""

    x: dict[str, list]  # rounds; bytes and seconds until then, means over seeds
    values: dict[Key, dict[str, list]]  # {"mean", "low", "high", "n": ...} over seeds
    published: list[dict]  # {"key": ..., "value": ..., "text": ...}


def curve(line: SeedGroupView) -> Curve:
    """Returns the numbers of a line."""
    by_key: dict[Key, dict[int, list[float]]] = {BYTES: {}, SECONDS: {}}
    for run in line.runs:
        seconds = seconds_until(run)
        for record in run.records:
            r = record["round"]
            costs = (BYTES, bytes_until(record)), (SECONDS, seconds.get(r))
            for key, value in (*costs, *record_values(record)):
                if value is not None:
                    by_key.setdefault(key, {}).setdefault(r, []).append(value)
    rounds = sorted({record["round"] for run in line.runs for record in run.records})
    values = {key: _over_seeds(rounds, numbers) for key, numbers in by_key.items()}
    sent, elapsed = values.pop(BYTES)["mean"], values.pop(SECONDS)["mean"]
    x = {"round": rounds, "bytes": sent, "seconds": elapsed}
    return Curve(x, values, list(published(line)))


def record_values(record: Mapping) -> Iterator[tuple[Key, float]]:
    """Yields the numbers of a record: accuracies in %, other measures as they are."""
    measured = [(ACCURACY, rule, shares) for rule, shares in record["rules"].items()]
    for rule, metrics in record.get("metrics", {}).items():
        measured += [(name, rule, averages) for name, averages in metrics.items()]
    for measure, rule, averages in measured:
        for name, average in AVERAGES.items():
            value = number(averages.get(name))
            if value is not None:
                scale = 100 if measure == ACCURACY else 1
                yield (measure, rule, average), scale * value


def _over_seeds(rounds: Sequence[int], numbers: Mapping[int, list[float]]) -> dict:
    """Returns statistics over the seeds that have come to each round, in six digits."""
    seeds = [numbers.get(r, []) for r in rounds]
    columns: dict[str, list] = {"n": [len(values) for values in seeds]}
    for name, f in (("mean", statistics.fmean), ("low", min), ("high", max)):
        columns[name] = [float(f"{f(v):.6g}") if v else None for v in seeds]
    return columns


def published(line: SeedGroupView) -> Iterator[dict]:
    """Yields the accuracies that papers print for the same setting, and their rules."""
    for row in published_for(line.group.config, line.group.dataset):
        rule = published_rule(row)
        with contextlib.suppress(ValueError):  # no number
            yield {
                "key": (ACCURACY, rule.rule, rule.average),
                "value": float(row.mean),
                "text": str(Part(row.mean, row.std, row.place)),
            }
