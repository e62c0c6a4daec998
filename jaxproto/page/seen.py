"""A run as the page sees it, how far it is, and runs that differ in the seed alone."""

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxproto import compare
from jaxproto.compare import tables
from jaxproto.compare.runs import Group, Run
from jaxproto.errors import escaped
from jaxproto.storage.status import Status, status_of


class Seen(NamedTuple):
    """A run, finished or not."""

    name: str  # of its folder, or its path
    run: Run
    records: list[dict]

    @property
    def last(self) -> dict | None:
        """The newest evaluation."""
        return self.records[-1] if self.records else None

    @property
    def round(self) -> int:
        """Of the newest evaluation."""
        return self.last["round"] if self.last else 0

    @property
    def state(self) -> Status:
        """How far the run is, by its summary and the rounds that it is to have."""
        return status_of(self.run.summary, self.run.config["rounds"])


class Line(NamedTuple):
    """Runs that differ in nothing but the seed: a line of the figures."""

    label: str
    dataset: str
    group: Group
    seen: tuple[Seen, ...]


def lines(seen: Sequence[Seen]) -> list[Line]:
    """Runs of equal settings together, with names that tell them apart."""
    by_path = {one.run.path: one for one in seen}
    groups = compare.groups(one.run for one in seen)
    several = len({g.dataset for g in groups}) > 1
    return [
        Line(
            escaped(f"{label}, {g.dataset}" if several else label),
            escaped(g.dataset),
            g,
            tuple(by_path[run.path] for run in g.runs),
        )
        for label, g in zip(tables.labels(groups), groups, strict=True)
    ]


def number(value) -> float | None:
    """A finite number of a record or summary; None if it is something else."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and math.isfinite(value) else None


def sent(record: Mapping) -> float | None:
    """Bytes in both directions until a record, from the first round on."""
    total = record.get("bytes_total")
    parts = [number(v) for v in total.values()] if isinstance(total, dict) else []
    known = [v for v in parts if v is not None]
    return sum(known) if known and len(known) == len(parts) else None


def training(one: Seen) -> dict[int, float]:
    """Seconds of all rounds until each evaluation; a record has those of one round."""
    found, so_far, before = dict[int, float](), 0.0, 0
    for record in one.records:
        each = number(record.get("seconds"))
        if each is None:
            return {}
        so_far += each * (record["round"] - before)
        before = record["round"]
        found[before] = so_far
    return found


def summary(one: Seen) -> dict:
    """The summary of a run; nothing of one that has none."""
    return one.run.summary or {}


def progress(one: Seen) -> str:
    """Such as `finished, 60 rounds`."""
    planned = one.run.config["rounds"]
    if one.state.ok:
        return f"{one.state}, {one.round} rounds"
    if one.state is Status.DIVERGED:
        return f"diverged, last evaluation after round {one.round} of {planned}"
    return f"not ended, round {one.round} of {planned}{_since(one)}"


def _since(one: Seen) -> str:
    """When the last evaluation was written."""
    try:
        at = (one.run.path / "metrics.jsonl").stat().st_mtime
    except OSError:
        return ""
    when = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return f" ({when:%Y-%m-%d %H:%M} UTC)"
