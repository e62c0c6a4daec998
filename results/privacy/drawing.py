"""Tables and the picture of what `run.py` wrote.

    python -m results.privacy.drawing

Prints the tables and draws docs/how_to/differential_privacy.png.
"""

import itertools
import statistics
import sys
from collections.abc import Sequence

from jaxproto.experiment import display_names
from jaxproto.plots import layout
from jaxproto.plots.style import line_style, new_figure
from results.privacy.run import DIVERGED, HERE, METHODS, SETS, UNITS, WHY, read

PICTURE = HERE.parents[1] / "docs" / "how_to" / "differential_privacy.png"
TITLES = {
    "digits": "digits, 20 rounds",
    "digits_5": "digits, 5 rounds",
    "fashion_mnist": "Fashion-MNIST",
}
Curve = list[tuple[float, str, list[float]]]  # epsilon, clip, accuracies in per cent


def curve(rows: Sequence[dict], method: str, unit: str) -> Curve:
    """Returns accuracies of the seeds that did not diverge, least epsilon first."""
    found: dict[tuple[float, str], list[float]] = {}
    for row in rows:
        same = (row["method"], row["unit"]) == (method, unit)
        if same and row["rule"] == METHODS[method] and row["accuracy"] != DIVERGED:
            key = float(row["epsilon"] or "inf"), row["clip"]
            found.setdefault(key, []).append(100 * float(row["accuracy"]))
    return [(*key, found[key]) for key in sorted(found)]


def draw_all():
    """Prints the tables and draws the picture of the page."""
    tables = {data: read(HERE / f"{data}.csv") for data in SETS}
    tables = {data: rows for data, rows in tables.items() if rows}
    for data, rows in tables.items():
        sys.stdout.write(f"\n{data}\n\n{table(rows)}\n")
    sys.stdout.write(f"\nwhy\n\n{reasons(read(HERE / 'why.csv'))}\n")
    draw(tables)


def spread(values: Sequence[float]) -> str:
    """Returns mean and standard deviation as text; of one value, the value."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.pstdev(values):.1f}"


def table(rows: Sequence[dict]) -> str:
    """Returns Markdown: a row per method and unit, a column per epsilon."""
    lines = []
    for unit in UNITS[1:]:
        curves = {method: curve(rows, method, unit) for method in METHODS}
        epsilons = sorted({e for found in curves.values() for e, _, _ in found})
        if not epsilons:
            continue
        head = ["method", "clip", "no privacy", *(f"{e:.3g}" for e in epsilons)]
        lines += ["", f"unit {unit}, columns are epsilon", "", _line(head)]
        lines.append("|" + "---|" * len(head))
        for method, found in curves.items():
            if not found:
                continue
            plain = [spread(v) for _, _, v in curve(rows, method, "off")]
            cells = {e: spread(v) for e, _, v in found}
            row = [
                f"`{method}`",
                found[0][1],
                *plain,
                *(cells.get(e, "") for e in epsilons),
            ]
            lines.append(_line(row))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def reasons(rows: Sequence[dict]) -> str:
    """Returns Markdown: accuracy of every case of WHY by the method's rule."""
    sets = dict.fromkeys(r["set"] for r in rows)
    lines = [_line(["case", *(TITLES[set] for set in sets)])]
    lines.append("|---" * (1 + len(sets)) + "|")
    for name in WHY:
        rule = METHODS[WHY[name][0]]
        mine = [r for r in rows if (r["case"], r["rule"]) == (name, rule)]
        by_set = [[r for r in mine if r["set"] == set] for set in sets]
        cells = [spread([100 * float(r["accuracy"]) for r in rs]) for rs in by_set]
        lines.append(_line([name, *cells]))
    return "\n".join(lines)


def draw(tables: dict[str, list[dict]]):
    """Draws a panel for each data set and unit, with a line for each method."""
    pairs = itertools.product(tables.items(), UNITS[1:])
    places = [(d, r, u) for (d, r), u in pairs if any(row["unit"] == u for row in r)]
    titles = [f"{TITLES[data]}, unit {unit}" for data, _, unit in places]
    with new_figure(
        PICTURE, layout.figure_size(len(titles), (2.6, 2.2), more=0.4)
    ) as figure:
        panels = layout.panels(figure, titles, share=False)
        for panel, (_, rows, unit) in zip(panels, places, strict=True):
            for i, method in enumerate(METHODS):
                line(panel, rows, method, unit, line_style(i)["color"], "osD^"[i])
            panel.set_xscale("log")
            panel.set_ylim(0, 100)
        layout.label_outer_axes(panels, "epsilon (delta 1e-5)", "test accuracy (%)")
        layout.legend(figure, *panels[0].get_legend_handles_labels())


def line(panel, rows, method, unit, colour, marker):
    """Draws mean, minimum and maximum over seeds; without privacy, dotted."""
    points = curve(rows, method, unit)
    if not points:
        return
    x, values = [epsilon for epsilon, _, _ in points], [v for _, _, v in points]
    means = [statistics.fmean(v) for v in values]
    label = display_names.METHODS[method]
    panel.plot(x, means, color=colour, marker=marker, label=label)
    panel.fill_between(
        x, [*map(min, values)], [*map(max, values)], color=colour, alpha=0.15, lw=0
    )
    for _, _, plain in curve(rows, method, "off"):
        panel.axhline(statistics.fmean(plain), color=colour, ls=":")


if __name__ == "__main__":
    draw_all()
