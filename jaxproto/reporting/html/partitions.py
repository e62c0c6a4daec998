"""Examples per client and class, each partition once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.io import atomic, json_files
from jaxproto.reporting.html import figure
from jaxproto.reporting.html.figure import Option
from jaxproto.storage.run_folder import RunFolder

CELLS = 100_000  # at most, of a partition that is drawn
MAX_PARTITIONS = 12  # at most, on a page
SPLITS = {"train": "training"}  # split -> name on the page, if another


class Partition(NamedTuple):
    """Examples per client and class, and the runs that have them."""

    runs: str  # their names
    title: str
    classes: list[str]
    splits: dict[str, np.ndarray]  # [K, C] of train, test and maybe validation


def partitions(runs: Sequence[RunFolder]) -> dict:
    """Returns the figure, "" if no run has a partition, its options and notes."""
    owners: dict[bytes, list[RunFolder]] = {}
    without, notes = [], []
    for run in runs:
        try:
            counts = atomic.read(run.folder / "partition.csv")
        except FileNotFoundError:
            without.append(run.name)
        except OSError as e:
            notes.append(f"{run.name}: partition.csv cannot be read: {e.strerror}")
        else:  # the data set names the classes
            key = counts + repr(run.config["data.name"]).encode()
            owners.setdefault(key, []).append(run)
    shown: list[Partition] = []
    for sharing in list(owners.values())[:MAX_PARTITIONS]:
        try:
            shown.append(partition(sharing))
        except UserError as e:
            notes.append(f"{sharing[0].name}: {e}")
    if len(owners) > MAX_PARTITIONS:
        notes.append(f"The first {MAX_PARTITIONS} of {len(owners)} partitions.")
    if without:
        notes.append(f"No partition.csv in {first_few(without)}.")
    captions = [f"{p.runs}: {p.title}. Empty cells: no example." for p in shown]
    splits = dict.fromkeys(split for p in shown for split in p.splits)
    return {
        "html": _figure(shown) if shown else "",
        "splits": [Option(SPLITS.get(split, split), value=split) for split in splits],
        "options": [Option(p.runs, value=str(i)) for i, p in enumerate(shown)],
        "captions": [
            Option(text, [{"partition": str(i)}]) for i, text in enumerate(captions)
        ],
        "notes": notes,
    }


def _figure(shown: Sequence[Partition]) -> str:
    """Returns the figure; the height is that of the partition with most clients."""
    traces = [trace for i, p in enumerate(shown) for trace in _heatmaps(i, p)]
    rows = max(len(p.splits["train"]) for p in shown)
    axis = {"type": "category", **figure.BARE}
    layout = {"xaxis": axis | {"title": "class"}, "yaxis": axis | {"title": "client"}}
    height = min(900, max(300, 110 + 14 * rows))
    return figure.as_html("plot-partition", traces, height=height, **layout)


def _heatmaps(i: int, shown: Partition) -> Iterator[dict]:
    """Yields the counts in colours of their logarithm, one trace per split."""
    for split, counts_KC in shown.splits.items():
        largest = max(1, int(counts_KC.max(initial=1)))
        ticks = [10**k for k in range(6) if 10**k <= largest]
        yield figure.heatmap(
            {"partition": str(i), "split": split},
            np.log10(np.where(counts_KC > 0, counts_KC, np.nan)).round(3),
            [figure.text(name) for name in shown.classes],
            [str(k) for k in range(len(counts_KC))],
            "examples",
            customdata=counts_KC[::-1].tolist(),
            zmin=0,
            zmax=max(1.0, float(np.log10(largest))),
            colorbar_tickvals=list(range(len(ticks))),
            colorbar_ticktext=[f"{count:,}" for count in ticks],
            hovertemplate="client %{y}, class %{x}: %{customdata} examples"
            "<extra></extra>",
        )


def partition(owners: Sequence[RunFolder]) -> Partition:
    """Returns the partition of some runs, for the first clients if they are many.

    Raises:
      UserError: the file is no partition.
    """
    folder = owners[0].folder
    counts = partition_stats.read_csv(folder / "partition.csv")
    clients, classes = counts.train.shape
    rows = max(1, min(clients, CELLS // max(classes, 1)))
    sizes = {k: f"{count.sum():,}" for k, count in counts.splits().items()}
    more = f", {sizes['validation']} validation" if "validation" in sizes else ""
    title = f"{clients:,} clients, {classes} classes, {sizes['train']} training{more} "
    title += f"and {sizes['test']} test examples"
    if rows < clients:
        title += f"; the first {rows:,} clients are drawn"
    names, labels = first_few((run.name for run in owners), 3), _labels(folder, classes)
    splits = {split: count[:rows] for split, count in counts.splits().items()}
    return Partition(names, title, labels, splits)


def _labels(folder: Path, classes: int) -> list[str]:
    """Returns the numbers of the classes, with their names where they have some."""
    try:
        numbers = json_files.read_json(folder / "classes.json") or {}
        names = {int(c): escape_unprintable(name) for name, c in numbers.items()}
    except (TypeError, ValueError):
        names = {}
    return [f"{c} {names[c]}" if c in names else str(c) for c in range(classes)]
