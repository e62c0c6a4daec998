"""Accuracy of each client against its size, where an evaluation has kept it."""

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.errors import UserError, first_few
from jaxproto.io import atomic
from jaxproto.reporting.html import figure
from jaxproto.reporting.html.run_view import SeedGroupView
from jaxproto.reporting.html.table import MISSING, Table, per_cent
from jaxproto.storage.run_folder import RunFolder

MAX_CLIENTS = 2000  # clients of a run that are drawn
PREFIX = "correct_"
KEEP = "--config.eval.per_client=True"
TICKS = [n * 10**k for k in range(7) for n in (1, 2, 5)]
LAYOUT = {
    "xaxis": {
        "title": {"text": "training examples of the client"},
        "type": "log",
        "tickvals": TICKS,
        "ticktext": [f"{n:,}" for n in TICKS],
    },
    "yaxis": {"title": {"text": "test accuracy (%)"}},
}
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


class ClientAccuracy(NamedTuple):
    """The figure of the clients, and what a reader must know of the rest."""

    html: str  # "" if no run has a table of clients
    notes: list[str]
    spread: Table  # over the clients, of every run


def client_accuracy(lines: Sequence[SeedGroupView]) -> ClientAccuracy:
    """Reads the newest table of clients of every run."""
    drawn, without, notes = list[dict](), list[str](), list[str]()
    for i, line in enumerate(lines):
        for one in line.runs:
            try:
                made = _points(one)
            except UNREADABLE as e:
                notes.append(f"{one.name}: its tables of clients cannot be read ({e}).")
                continue
            except UserError as e:
                notes.append(f"{one.name}: {e}")
                continue
            if made is None:
                without.append(one.name)
                continue
            of = len(made.pop("all"))
            if of > MAX_CLIENTS:
                notes.append(
                    f"{one.name}: {MAX_CLIENTS} of {of:,} clients, drawn at random."
                )
            drawn += _traces(i, line, one.name, made)
    if without:
        notes.append(
            f"No accuracies of single clients in {first_few(without)}: runs keep them "
            f"with {KEEP}. What the last evaluation says of all clients is below."
        )
    made_of = figure.as_html("plot-clients", drawn, LAYOUT) if drawn else ""
    return ClientAccuracy(made_of, notes, spread(lines))


def _traces(i: int, line: SeedGroupView, name: str, made: dict) -> Iterator[dict]:
    """Yields the marks of the clients of a run, one trace per rule."""
    shown = list(zip(made["id"].tolist(), made["test"].tolist(), strict=True))
    for rule, share_K in made["rules"].items():
        when = {"method": str(i), "dataset": line.dataset, "rule": rule}
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": figure.text(name),
            "x": made["train"].tolist(),
            "y": share_K.round(3).tolist(),
            "customdata": shown,
            "marker": {
                "color": figure.colour(i),
                "size": 8,
                "opacity": 0.75,
                "symbol": i % 30,
            },
            "hovertemplate": "%{fullData.name}, client %{customdata[0]}: %{y:.2f} %<br>"
            "%{x} training, %{customdata[1]} test examples, "
            f"round {made['round']}<extra></extra>",
            **figure.meta(when),
        }


def _points(one: RunFolder) -> dict | None:
    """Accuracy in % and examples of each client; None if the run has no table."""
    file = _newest(one)
    if file is None:
        return None
    with np.load(io.BytesIO(atomic.read(file)), allow_pickle=False) as columns:
        found = {name: np.asarray(columns[name]) for name in columns.files}
    id_K, test_K = found["id"].astype(int), found["test_examples"].astype(float)
    train_K = partition_stats.read_csv(one.path / "partition.csv").train.sum(1)
    if (id_K < 0).any() or (id_K >= len(train_K)).any() or id_K.shape != test_K.shape:
        raise ValueError(f"{file.name} has other clients than partition.csv")
    shown = _some(id_K)
    rules = {
        name.removeprefix(PREFIX): _shares(hits_K, test_K)[shown]
        for name, hits_K in found.items()
        if name.startswith(PREFIX)
    }
    return {
        "round": int(file.stem) if file.stem.isdecimal() else one.round,
        "all": id_K,
        "id": id_K[shown],
        "train": train_K[id_K][shown],
        "test": test_K[shown],
        "rules": rules,
    }


def _newest(one: RunFolder) -> Path | None:
    """The table of the newest evaluation, or the newest that there is."""
    folder = one.path / "per_client"
    mine = folder / f"{one.round:06}.npz"
    return mine if mine.is_file() else max(folder.glob("*.npz"), default=None)


def _some(id_K: np.ndarray) -> np.ndarray:
    """Positions of all clients, or of MOST at random."""
    every = np.arange(len(id_K))
    if len(every) <= MAX_CLIENTS:
        return every
    return np.sort(np.random.default_rng(0).choice(every, MAX_CLIENTS, replace=False))


def _shares(hits_K: np.ndarray, test_K: np.ndarray) -> np.ndarray:
    """Per cent; nan where a client has no test example."""
    safe_K = np.where(test_K > 0, test_K, np.nan)
    return 100 * hits_K.astype(float) / safe_K


SPREAD = ("client_mean", "client_std", "client_min", "client_max")


def spread(lines: Sequence[SeedGroupView]) -> Table:
    """Mean, deviation, least and largest over clients, of the last evaluations."""
    rows = [
        (one.name, str(one.round), rule, *(_cell(kinds, k) for k in SPREAD))
        for line in lines
        for one in line.runs
        if one.last
        for rule, kinds in one.last["rules"].items()
    ]
    head = ("run", "round", "rule", "mean %", "deviation", "least %", "largest %")
    return Table("Over clients, last evaluation", head, rows)


def _cell(kinds: Mapping, name: str) -> str:
    value = kinds.get(name)
    return MISSING if value is None else per_cent(value)
