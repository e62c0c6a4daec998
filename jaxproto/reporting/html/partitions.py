"""Who has what: examples per client and class, each partition once."""

from collections.abc import Sequence

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.io import json_files
from jaxproto.storage.run_folder import RunFolder

CELLS = 100_000  # of a partition that are drawn
MAX_PARTITIONS = 12  # partitions


def partitions(runs: Sequence[RunFolder]) -> tuple[list[dict], list[str]]:
    """The partitions of the runs, and what a reader must know.

    Returns:
      [{"runs", "title", "clients", "classes", "train": [[...]], "test": [[...]]}];
      clients and classes are the names of rows and columns.
    """
    having: dict[bytes, list[RunFolder]] = {}
    without, notes = [], []
    for one in runs:
        try:
            having.setdefault(_content(one), []).append(one)
        except OSError:
            without.append(one.name)
    made = []
    for i, owners in enumerate(having.values()):
        try:
            found = partition(owners) if i < MAX_PARTITIONS else None
        except UserError as e:
            notes.append(f"{owners[0].name}: {e}")
            continue
        made += [found] if found else []
    if len(having) > MAX_PARTITIONS:
        notes.append(f"The first {MAX_PARTITIONS} of {len(having)} partitions.")
    if without:
        notes.append(f"No partition.csv in {first_few(without)}.")
    return made, notes


def _content(one: RunFolder) -> bytes:
    """The counts as they are written, and the data set, which names the classes."""
    counts = (one.path / "partition.csv").read_bytes()
    return counts + repr(one.config["data.name"]).encode()


def partition(owners: Sequence[RunFolder]) -> dict:
    """One of them; of many clients the first.

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
    return {
        "runs": first_few((one.name for one in owners), 3),
        "title": told,
        "clients": np.arange(rows),
        "classes": _names(path, classes),
        "train": counts.train[:rows],
        "test": counts.test[:rows],
    }


def _names(path, classes: int) -> list[str]:
    """Of the classes; their numbers where they have none."""
    try:
        numbers = json_files.read_json(path / "classes.json") or {}
        names = {int(c): escape_unprintable(name) for name, c in numbers.items()}
    except (json_files.Damaged, TypeError, ValueError):
        names = {}
    return [f"{c} {names[c]}" if c in names else str(c) for c in range(classes)]
