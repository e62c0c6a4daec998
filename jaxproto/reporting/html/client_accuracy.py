"""Accuracy of each client against its size, in the last evaluation."""

from collections.abc import Iterator, Sequence

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.errors import escape_unprintable, first_few
from jaxproto.reporting.html import figure
from jaxproto.reporting.html.run_view import SeedGroupView
from jaxproto.reporting.html.table import Table, per_cent
from jaxproto.storage.run_folder import RunFolder

PREFIX = "correct_"  # of columns of `by_client`, before the rule
HOVER = (
    "%{fullData.name}, client %{customdata[0]}: %{y:.2f} %<br>"
    "%{x} training, %{customdata[1]} test examples, round "
)
SPREAD = ("client_mean", "client_std", "client_min", "client_max")


def client_accuracy(lines: Sequence[SeedGroupView]) -> dict:
    """Returns the figure of the clients in the last record of every run, and notes.

    The figure is "" if no record lists them; `spread` is a table over the clients.
    """
    traces, without, notes = list[dict](), list[str](), list[str]()
    for line, run in [(view, run) for view in lines for run in view.runs]:
        if not (run.last and run.last.get("by_client")):
            without.append(run.name)
            continue
        try:
            traces += _traces(line, run, run.last["by_client"])
        except (ValueError, KeyError) as e:
            why = escape_unprintable(str(e))
            notes.append(f"{run.name}: its clients cannot be read ({why}).")
    if without:
        notes.append(
            f"No accuracies of single clients in {first_few(without)}: records list "
            "up to 1,000 clients. What the last evaluation says of all is below."
        )
    x = {"title_text": "training examples of the client", "type": "log"}
    layout = {
        "xaxis": x | {"dtick": "D2", "tickformat": ","},  # labels at 1, 2, 5, 10, 20
        "yaxis_title_text": "test accuracy (%)",
    }
    html = figure.as_html("plot-clients", traces, **layout) if traces else ""
    return {"html": html, "notes": notes, "spread": spread(lines)}


def _traces(line: SeedGroupView, run: RunFolder, listed: dict) -> Iterator[dict]:
    """Yields the marks of the clients of a run, one trace per rule."""
    table = {name: np.asarray(column, float) for name, column in listed.items()}
    id_K, test_K = table["id"].astype(int), table["test_examples"]
    train_K = partition_stats.read_csv(run.folder / "partition.csv").train.sum(1)
    if (id_K >= len(train_K)).any() or id_K.shape != test_K.shape:
        raise ValueError("they have other clients than partition.csv")
    safe_K = np.where(test_K > 0, test_K, np.nan)
    marker = {"color": figure.colour(line.position), "symbol": line.position % 30}
    for name in (name for name in table if name.startswith(PREFIX)):
        yield figure.trace(
            "scatter",
            line.when | {"rule": name.removeprefix(PREFIX)},
            mode="markers",
            name=figure.text(run.name),
            x=train_K[id_K].tolist(),
            y=(100 * table[name] / safe_K).round(3).tolist(),
            customdata=list(zip(id_K.tolist(), test_K.tolist(), strict=True)),
            marker=marker | {"size": 8, "opacity": 0.75},
            hovertemplate=f"{HOVER}{run.round}<extra></extra>",
        )


def spread(lines: Sequence[SeedGroupView]) -> Table:
    """Returns mean, deviation, least and largest over clients of last evaluations."""
    rows = [
        (run.name, str(run.round), rule, *(per_cent(shares.get(k)) for k in SPREAD))
        for line in lines
        for run in line.runs
        if run.last
        for rule, shares in run.last["rules"].items()
    ]
    head = ("run", "round", "rule", "mean %", "deviation", "least %", "largest %")
    return Table("Over clients, last evaluation", head, rows)
