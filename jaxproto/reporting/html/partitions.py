"""Who has what: examples per client and class, each partition once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.io import json_files
from jaxproto.reporting.html import figure
from jaxproto.reporting.html.figure import Caption, Option, When
from jaxproto.storage.run_folder import RunFolder

CELLS = 100_000  # of a partition that are drawn
MAX_PARTITIONS = 12  # partitions


class Partition(NamedTuple):
    """Examples per client and class, and the runs that have them."""

    runs: str
    title: str
    classes: list[str]
    train: np.ndarray  # [K, C]
    test: np.ndarray  # [K, C]


class Partitions(NamedTuple):
    """The figure of the partitions, its options and captions, and notes."""

    html: str  # "" if no run has a partition
    options: list[Option]
    captions: list[Caption]
    notes: list[str]


def partitions(runs: Sequence[RunFolder]) -> Partitions:
    """Returns the figure with each partition of the runs once."""
    having: dict[bytes, list[RunFolder]] = {}
    without, notes = [], []
    for one in runs:
        try:
            having.setdefault(_content(one), []).append(one)
        except OSError:
            without.append(one.name)
    made: list[Partition] = []
    for owners in list(having.values())[:MAX_PARTITIONS]:
        try:
            made.append(partition(owners))
        except UserError as e:
            notes.append(f"{owners[0].name}: {e}")
    if len(having) > MAX_PARTITIONS:
        notes.append(f"The first {MAX_PARTITIONS} of {len(having)} partitions.")
    if without:
        notes.append(f"No partition.csv in {first_few(without)}.")
    options = [Option(str(i), one.runs) for i, one in enumerate(made)]
    captions = [
        Caption(f"{one.runs}: {one.title}. Empty cells: no example.", [_choice(i)])
        for i, one in enumerate(made)
    ]
    return Partitions(_figure(made) if made else "", options, captions, notes)


def _choice(i: int) -> When:
    return {"partition": str(i)}


def _figure(made: Sequence[Partition]) -> str:
    """Returns the figure; the height is that of the partition with most clients."""
    traces = [
        _heatmap(one, counts_KC, _choice(i) | {"split": split})
        for i, one in enumerate(made)
        for split, counts_KC in (("train", one.train), ("test", one.test))
    ]
    rows = max(len(one.train) for one in made)
    axis = {"type": "category", **figure.BARE}
    layout = {
        "height": min(900, max(300, 110 + 14 * rows)),
        "xaxis": {"title": {"text": "class"}, **axis},
        "yaxis": {"title": {"text": "client"}, **axis},
    }
    return figure.as_html("plot-partition", traces, layout)


def _heatmap(made: Partition, counts_KC: np.ndarray, when: When) -> dict:
    """Returns the counts in colours of their logarithm, the first client on top."""
    up_KC = counts_KC[::-1]
    most = max(1, int(up_KC.max(initial=1)))
    log_KC = np.log10(np.where(up_KC > 0, up_KC, np.nan)).round(3)
    ticks = [10**k for k in range(6) if 10**k <= most]
    return {
        "type": "heatmap",
        "x": [figure.text(name) for name in made.classes],
        "y": [str(k) for k in reversed(range(len(up_KC)))],
        "z": log_KC.tolist(),
        "customdata": up_KC.tolist(),
        "zmin": 0,
        "zmax": max(1.0, float(np.log10(most))),
        "colorscale": figure.SCALE,
        "colorbar": {
            "thickness": 12,
            "title": {"text": "examples", "side": "right"},
            "tickvals": list(range(len(ticks))),
            "ticktext": [f"{n:,}" for n in ticks],
        },
        "hoverongaps": False,
        "xgap": int(len(made.classes) <= 60),
        "ygap": int(len(up_KC) <= 60),
        "hovertemplate": "client %{y}, class %{x}: %{customdata} examples"
        "<extra></extra>",
        **figure.meta(when),
    }


def _content(one: RunFolder) -> bytes:
    """The counts as they are written, and the data set, which names the classes."""
    counts = (one.path / "partition.csv").read_bytes()
    return counts + repr(one.config["data.name"]).encode()


def partition(owners: Sequence[RunFolder]) -> Partition:
    """Returns a partition; of many clients the first.

    Raises:
      UserError: the file is no partition.
    """
    path = owners[0].path
    counts = partition_stats.read_csv(path / "partition.csv")
    clients, classes = counts.train.shape
    rows = max(1, min(clients, CELLS // max(classes, 1)))
    told = f"{clients:,} clients, {classes} classes"
    told += f", {int(counts.train.sum()):,} training and "
    told += f"{int(counts.test.sum()):,} test examples"
    if rows < clients:
        told += f"; the first {rows:,} clients are drawn"
    names = first_few((one.name for one in owners), 3)
    shown = counts.train[:rows], counts.test[:rows]
    return Partition(names, told, _names(path, classes), *shown)


def _names(path, classes: int) -> list[str]:
    """Of the classes; their numbers where they have none."""
    try:
        numbers = json_files.read_json(path / "classes.json") or {}
        names = {int(c): escape_unprintable(name) for name, c in numbers.items()}
    except (json_files.Damaged, TypeError, ValueError):
        names = {}
    return [f"{c} {names[c]}" if c in names else str(c) for c in range(classes)]
