"""Accuracy of each client against its size, where an evaluation has kept it."""

from collections.abc import Iterator, Sequence

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.errors import escape_unprintable, first_few
from jaxproto.reporting.html import figure
from jaxproto.reporting.html.run_view import SeedGroupView
from jaxproto.reporting.html.table import Table, per_cent
from jaxproto.storage import records
from jaxproto.storage.run_folder import RunFolder

MAX_CLIENTS = 2000  # clients of a run that are drawn
PREFIX = "correct_"
KEEP = "--config.eval.per_client=True"
HOVER = (
    "%{fullData.name}, client %{customdata[0]}: %{y:.2f} %<br>"
    "%{x} training, %{customdata[1]} test examples, round "
)
UNREADABLE = (ValueError, KeyError, TypeError)
SPREAD = ("client_mean", "client_std", "client_min", "client_max")


def client_accuracy(lines: Sequence[SeedGroupView]) -> dict:
    """Returns the figure of the newest table of clients of every run, and notes.

    The figure is "" if no run has such a table; `spread` is a table over the clients.
    """
    traces, without, notes = list[dict](), list[str](), list[str]()
    for line, run in [(one, run) for one in lines for run in one.runs]:
        folder = run.path / "per_client"
        newest = folder / f"{run.round:06}.npz"
        file = newest if newest.is_file() else max(folder.glob("*.npz"), default=None)
        if file is None:
            without.append(run.name)
            continue
        try:
            table = records.read_columns(file)
            round_ = int(file.stem) if file.stem.isdecimal() else run.round
            traces += _traces(line, run, table, round_)
        except UNREADABLE as e:
            why = escape_unprintable(str(e))
            notes.append(f"{run.name}: its tables of clients cannot be read ({why}).")
        else:
            if (num := len(table["id"])) > MAX_CLIENTS:
                share = f"{MAX_CLIENTS} of {num:,} clients, drawn at random"
                notes.append(f"{run.name}: {share}.")
    if without:
        notes.append(
            f"No accuracies of single clients in {first_few(without)}: runs keep them "
            f"with {KEEP}. What the last evaluation says of all clients is below."
        )
    x = {"title_text": "training examples of the client", "type": "log"}
    layout = {
        "xaxis": x | {"dtick": "D2", "tickformat": ","},  # labels at 1, 2, 5, 10, 20
        "yaxis_title_text": "test accuracy (%)",
    }
    html = figure.as_html("plot-clients", traces, **layout) if traces else ""
    return {"html": html, "notes": notes, "spread": spread(lines)}


def _traces(
    line: SeedGroupView, run: RunFolder, table: dict[str, np.ndarray], round_: int
) -> Iterator[dict]:
    """Yields the marks of the clients of a run, one trace per rule."""
    id_K, test_K = table["id"].astype(int), table["test_examples"].astype(float)
    train_K = partition_stats.read_csv(run.path / "partition.csv").train.sum(1)
    if (id_K < 0).any() or (id_K >= len(train_K)).any() or id_K.shape != test_K.shape:
        raise ValueError("they have other clients than partition.csv")
    shown = np.arange(len(id_K))
    if len(shown) > MAX_CLIENTS:
        rng = np.random.default_rng(0)
        shown = np.sort(rng.choice(shown, MAX_CLIENTS, replace=False))
    customdata = list(zip(id_K[shown].tolist(), test_K[shown].tolist(), strict=True))
    safe_K = np.where(test_K > 0, test_K, np.nan)
    marker = {"color": figure.colour(line.position), "symbol": line.position % 30}
    for name in (name for name in table if name.startswith(PREFIX)):
        share_K = 100 * table[name].astype(float) / safe_K
        yield figure.trace(
            "scatter",
            line.when | {"rule": name.removeprefix(PREFIX)},
            mode="markers",
            name=figure.text(run.name),
            x=train_K[id_K][shown].tolist(),
            y=share_K[shown].round(3).tolist(),
            customdata=customdata,
            marker=marker | {"size": 8, "opacity": 0.75},
            hovertemplate=f"{HOVER}{round_}<extra></extra>",
        )


def spread(lines: Sequence[SeedGroupView]) -> Table:
    """Returns mean, deviation, least and largest over clients of last evaluations."""
    rows = [
        (run.name, str(run.round), rule, *(per_cent(kinds.get(k)) for k in SPREAD))
        for line in lines
        for run in line.runs
        if run.last
        for rule, kinds in run.last["rules"].items()
    ]
    head = ("run", "round", "rule", "mean %", "deviation", "least %", "largest %")
    return Table("Over clients, last evaluation", head, rows)
