"""The numbers of a record of `metrics.jsonl`, by the names that charts have."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ELSEWHERE = {"round", "every_round", "bytes_by_client"}  # not numbers of an evaluation
OF_ROUND = {  # entries of a record that are of its round, not of the server
    "loss",
    "seconds",
    "participants",
    "evaluated_clients",
    "scalars_up",
    "scalars_down",
    "bytes_up",
    "bytes_down",
}
NAMES = {"rules": "accuracy"}  # entry of a record -> what charts call it


class Point(NamedTuple):
    """What is known of a round."""

    round: int
    values: dict[str, float]


def scalar_points(record: Mapping) -> list[Point]:
    """A record as numbers: the evaluation, and before it the rounds since the last one.

    Accuracies are `accuracy/RULE/pooled` and so on; what is of the round is
    `round/loss`; what the server tells of itself is `server/smallest_angle`; an entry
    that has entries keeps their names, as `bytes_total/up`. What is no finite number is
    left out.
    """
    last = record["round"]
    found: dict[int, dict[str, float]] = {}
    for name, values in (record.get("every_round") or {}).items():
        for r, value in enumerate(values, last - len(values) + 1):
            if _is_number(value):
                found.setdefault(r, {})[f"server/{name}"] = value
    found.setdefault(last, {}).update(flatten_scalars(record))
    return [Point(r, found[r]) for r in sorted(found)]


def flatten_scalars(record: Mapping) -> dict[str, float]:
    """The numbers of the evaluation alone."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if name in ELSEWHERE:
            continue
        if isinstance(value, Mapping):
            found.update(_inside(NAMES.get(name, name), value))
        elif _is_number(value):
            found[f"{'round' if name in OF_ROUND else 'server'}/{name}"] = value
    return found


def _inside(above: str, entries: Mapping) -> Iterator[tuple[str, float]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _inside(f"{above}/{name}", value)
        elif _is_number(value):
            yield f"{above}/{name}", value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
