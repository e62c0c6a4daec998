"""Runs that differ in the seed alone, how far a run is, and numbers of its records."""

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxproto.errors import escape_unprintable
from jaxproto.reporting import compare
from jaxproto.reporting.compare import tables
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status


class SeedGroupView(NamedTuple):
    """Runs that differ in nothing but the seed: a line of the figures."""

    label: str
    dataset: str
    group: SeedGroup

    @property
    def runs(self) -> tuple[RunFolder, ...]:
        """Returns its runs, with their names."""
        return self.group.runs


def group_views(runs: Sequence[RunFolder]) -> list[SeedGroupView]:
    """Runs of equal settings together, with names that tell them apart."""
    groups = compare.group_by_seed(runs)
    several = len({g.dataset for g in groups}) > 1
    return [
        SeedGroupView(
            escape_unprintable(f"{label}, {g.dataset}" if several else label),
            escape_unprintable(g.dataset),
            g,
        )
        for label, g in zip(tables.row_labels(groups), groups, strict=True)
    ]


def number(value) -> float | None:
    """A finite number of a record or summary; None if it is something else."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and math.isfinite(value) else None


def bytes_until(record: Mapping) -> float | None:
    """Bytes in both directions until a record, from the first round on."""
    total = record.get("bytes_total")
    parts = [number(v) for v in total.values()] if isinstance(total, dict) else []
    known = [v for v in parts if v is not None]
    return sum(known) if known and len(known) == len(parts) else None


def seconds_until(one: RunFolder) -> dict[int, float]:
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


def progress(one: RunFolder) -> str:
    """Such as `finished, 60 rounds`."""
    planned, status = one.config["rounds"], one.status()
    if status.ok:
        return f"{status}, {one.round} rounds"
    if status is Status.DIVERGED:
        return f"diverged, last evaluation after round {one.round} of {planned}"
    return f"not ended, round {one.round} of {planned}{_since(one)}"


def _since(one: RunFolder) -> str:
    """When the last evaluation was written."""
    at, _ = one.stamp()
    when = datetime.datetime.fromtimestamp(at / 1e9, datetime.UTC)
    return f" ({when:%Y-%m-%d %H:%M} UTC)" if at else ""
