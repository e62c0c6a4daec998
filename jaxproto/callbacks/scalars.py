"""Scalars of a record of `metrics.jsonl`, named for charts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from flax.traverse_util import flatten_dict

SKIPPED = {"round", "every_round", "bytes_by_client", "by_client"}  # not charted as is
OF_ROUND = {  # entries of a record about its round, not about the server
    "loss",
    "seconds",
    "participants",
    "evaluated_clients",
    "scalars_up",
    "scalars_down",
    "bytes_up",
    "bytes_down",
}


class Point(NamedTuple):
    """Scalars of one round."""

    round: int
    values: dict[str, float]


def scalar_points(record: Mapping) -> list[Point]:
    """Returns the scalars of a record, and those of the rounds since the last record.

    Names are such as `accuracy/RULE/pooled`, `round/loss` for values of the round,
    `server/smallest_angle` for diagnostics of the server, and `bytes_total/up` for
    nested entries. Values that are no finite numbers are left out.
    """
    last = record["round"]
    points: dict[int, dict[str, float]] = {}
    for name, values in (record.get("every_round") or {}).items():
        for r, value in enumerate(values, last - len(values) + 1):
            if _is_number(value):
                points.setdefault(r, {})[f"server/{name}"] = value
    scalars = points.setdefault(last, {})
    for name, value in record.items():
        if isinstance(value, Mapping) and name not in SKIPPED:
            prefix = "accuracy" if name == "rules" else name
            nested = flatten_dict({prefix: value}, sep="/")
            scalars |= {k: v for k, v in nested.items() if _is_number(v)}
        elif _is_number(value) and name not in SKIPPED:
            scalars[f"{'round' if name in OF_ROUND else 'server'}/{name}"] = value
    return [Point(r, points[r]) for r in sorted(points)]


def plain_settings(config: Mapping) -> dict[str, bool | int | float | str]:
    """Returns settings whose values are numbers or text; others become text."""
    plain = bool | int | float | str
    return {k: v if isinstance(v, plain) else str(v) for k, v in config.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
