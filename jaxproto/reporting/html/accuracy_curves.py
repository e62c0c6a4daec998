"""Accuracies over rounds, bytes and seconds: mean, least and largest over seeds."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxproto.reporting.compare import paper_cells
from jaxproto.reporting.compare.paper_numbers import PAPERS
from jaxproto.reporting.compare.paper_rules import published_rule
from jaxproto.reporting.html.run_view import (
    SeedGroupView,
    bytes_until,
    number,
    seconds_until,
)
from jaxproto.storage.run_folder import RunFolder

ACCURACY = "accuracy"
AVERAGES = {  # average -> its names in records
    "pooled": ("pooled",),
    "client_mean": ("client_mean", "mean"),
}
Key = tuple[str, str, str]  # measure, rule, average


class Curve(NamedTuple):
    """Numbers of a line at each of its evaluations; None where there is no number."""

    x: dict[str, list]  # rounds, bytes and seconds until then, mean over seeds
    values: dict[Key, dict[str, list]]  # {"mean", "low", "high", "n"} over seeds
    published: list[dict]  # {"key", "value", "text"}


def curve(line: SeedGroupView) -> Curve:
    """Returns the numbers of a line."""
    rounds = sorted({r["round"] for one in line.runs for r in one.records})
    x = {
        "round": rounds,
        "bytes": _over_seeds(rounds, [_bytes(one) for one in line.runs])["mean"],
        "seconds": _over_seeds(rounds, [seconds_until(one) for one in line.runs])[
            "mean"
        ],
    }
    values = {key: _over_seeds(rounds, each) for key, each in _found(line).items()}
    return Curve(x, values, published(line))


def _found(line: SeedGroupView) -> dict[Key, list[dict[int, float]]]:
    """What was measured, by round, of each run that has it."""
    found: dict[Key, list[dict[int, float]]] = {}
    for one in line.runs:
        mine: dict[Key, dict[int, float]] = {}
        for record in one.records:
            for key, value in record_values(record):
                mine.setdefault(key, {})[record["round"]] = value
        for key, values in mine.items():
            found.setdefault(key, []).append(values)
    return found


def record_values(record: Mapping) -> Iterator[tuple[Key, float]]:
    """The numbers of a record: accuracies in %, and what else was measured by name."""
    for rule, kinds in record["rules"].items():
        for average in AVERAGES:
            value = number(kinds.get(average))
            if value is not None:
                yield (ACCURACY, rule, average), 100 * value
    more = record.get("metrics")
    for rule, named in more.items() if isinstance(more, dict) else ():
        for measure, kinds in named.items() if isinstance(named, dict) else ():
            for average, value in _scalars(kinds):
                yield (measure, rule, average), value


def _scalars(kinds) -> Iterator[tuple[str, float]]:
    """Of a metric: those of one number, not those of a number per class."""
    if not isinstance(kinds, dict):
        return
    for average, names in AVERAGES.items():
        found = [number(kinds.get(name)) for name in names]
        for value in [v for v in found if v is not None][:1]:
            yield average, value


def _over_seeds(rounds: Sequence[int], each: Sequence[Mapping[int, float]]) -> dict:
    """Of the seeds that have come to a round."""
    found = [[values[at] for values in each if at in values] for at in rounds]
    return {
        "mean": [_short(statistics.fmean(v)) if v else None for v in found],
        "low": [_short(min(v)) if v else None for v in found],
        "high": [_short(max(v)) if v else None for v in found],
        "n": [len(v) for v in found],
    }


def _short(value: float) -> float:
    """Returns the value with six digits, which is more than a figure shows."""
    return float(f"{value:.6g}")


def _bytes(one: RunFolder) -> dict[int, float]:
    found = {r["round"]: bytes_until(r) for r in one.records}
    return {at: value for at, value in found.items() if value is not None}


def published(line: SeedGroupView) -> list[dict]:
    """Accuracies that papers print for the same cell, and the rule of each."""
    made = []
    for row in paper_cells.published_for(line.group.config, line.group.dataset):
        how, mean = published_rule(row), _printed(row.mean)
        if mean is not None:
            where = f"{PAPERS[row.source]}, Table {row.table}"
            made.append(
                {
                    "key": (ACCURACY, how.rule, how.average),
                    "value": mean,
                    "text": f"{row.mean}{' ± ' + row.std if row.std else ''} ({where})",
                }
            )
    return made


def _printed(text: str) -> float | None:
    try:
        return number(float(text))
    except ValueError:
        return None
