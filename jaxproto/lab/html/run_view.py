"""Runs that differ in the seed alone, progress of a run, numbers of its records."""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxproto.errors import escape_unprintable
from jaxproto.lab import compare
from jaxproto.lab.compare.run_groups import SeedGroup
from jaxproto.lab.compare.tables import row_labels
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status


class SeedGroupView(NamedTuple):
    """Runs that differ in the seed alone: a line of the figures."""

    position: int  # among the lines
    label: str
    dataset: str
    group: SeedGroup

    @property
    def runs(self) -> tuple[RunFolder, ...]:
        """Returns the runs of the line."""
        return self.group.runs

    @property
    def when(self) -> dict[str, str]:
        """Returns the choices of controls that show the line."""
        return {"method": str(self.position), "dataset": self.dataset}


def group_views(runs: Sequence[RunFolder]) -> list[SeedGroupView]:
    """Returns runs of equal settings together, with distinct labels."""
    groups = compare.group_by_seed(runs)
    several = len({group.dataset for group in groups}) > 1
    views = []
    for i, (name, group) in enumerate(zip(row_labels(groups), groups, strict=True)):
        label = escape_unprintable(f"{name}, {group.dataset}" if several else name)
        views.append(SeedGroupView(i, label, escape_unprintable(group.dataset), group))
    return views


def bytes_until(record: Mapping) -> float | None:
    """Returns the bytes in both directions until a record, from the first round on."""
    sent = record.get("bytes_total")
    return float(sum(sent.values())) if sent else None


def seconds_until(run: RunFolder) -> dict[int, float]:
    """Returns the seconds until each evaluation; a record has those of one round."""
    by_round, total, last_round = dict[int, float](), 0.0, 0
    for record in run.records:
        seconds = record.get("seconds")
        if seconds is None:
            return {}
        total += seconds * (record["round"] - last_round)
        last_round = record["round"]
        by_round[last_round] = total
    return by_round


def progress(run: RunFolder) -> str:
    """Returns the state of a run, such as `finished, 60 rounds`."""
    planned, status = run.config["rounds"], run.status()
    if status.ok:
        return f"{status}, {run.round} rounds"
    if status is Status.DIVERGED:
        return f"diverged, last evaluation after round {run.round} of {planned}"
    written = datetime.datetime.fromtimestamp(run.stamp()[0] / 1e9, datetime.UTC)
    since = f" ({written:%Y-%m-%d %H:%M} UTC)" if run.stamp()[0] else ""
    return f"not ended, round {run.round} of {planned}{since}"
