"""Pictures of a run, as PNG files. Needs matplotlib: the extra `[plots]`.

Figures are made without pyplot, so nothing is shown and no state is shared.
"""

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.errors import UserError

HINT = "pictures need matplotlib: pip install 'jaxproto[plots]'"
# Okabe and Ito's palette, told apart with every kind of colour vision; then grey tones.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#000000", "#B8A800", "#7F7F7F", "#882255"),
)
_READABLE = 400  # cells of a matrix that may carry their number


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def partition_heatmap(path: str | Path, counts_KC: np.ndarray):
    """Examples of each class at each client; a blank cell is none."""
    counts_KC = np.asarray(counts_KC)
    num_K, num_C = counts_KC.shape
    with _figure(path, _size(num_C, num_K, counts_KC.size <= _READABLE)) as figure:
        import matplotlib
        from matplotlib.colors import ListedColormap, LogNorm

        blues = matplotlib.colormaps["Blues"](np.linspace(0.12, 1, 256))
        axes = figure.add_subplot()
        shown = np.ma.masked_equal(counts_KC, 0)
        scale = LogNorm(1, max(counts_KC.max(), 10))
        image = axes.imshow(shown, ListedColormap(blues), norm=scale, aspect="auto")
        figure.colorbar(image, label="examples (log scale; blank: none)", pad=0.02)
        axes.set(xlabel="class", ylabel="client")
        axes.set_title(
            f"{num_K} clients, {num_C} classes, {counts_KC.sum():,} examples"
        )
        dark = np.asarray(scale(np.maximum(counts_KC, 1))) > 0.6
        _cells(axes, counts_KC, counts_KC > 0, dark, "{:d}")


def accuracy_over_rounds(path: str | Path, records: Sequence[Mapping]):
    """Accuracy of every rule: a panel each, and the pooled ones of all behind it.

    Args:
      path: of the PNG file.
      records: of `metrics.jsonl`, at least one.
    """
    rules = list(records[-1]["rules"])
    with _figure(path, (1 + 2.6 * len(rules), 3.3)) as figure:
        shape = {"ncols": len(rules), "squeeze": False}
        panels = figure.subplots(**shape, sharex=True, sharey=True)[0]
        panels[0].set_ylabel("test accuracy (%)")
        for panel, rule in zip(panels, rules, strict=True):
            _one_rule(panel, records, rules, rule)
        panels[0].legend(fontsize=7, frameon=False, reverse=True)
        figure.supxlabel("round", fontsize="medium")


def prototype_angles(path: str | Path, mean_CD: np.ndarray, count_C: np.ndarray):
    """Angles between class prototypes in degrees; absent classes are grey."""
    there_C = (np.asarray(count_C) > 0) & (np.linalg.norm(mean_CD, axis=1) > 0)
    angle_CC, pair_CC = angles(mean_CD), there_C[:, None] & there_C
    np.fill_diagonal(pair_CC, False)
    num = len(there_C)
    with _figure(path, _size(num, num, num**2 <= _READABLE)) as figure:
        axes = figure.add_subplot()
        axes.set_facecolor("0.85")
        shown = np.ma.masked_where(~pair_CC, angle_CC)
        image = axes.imshow(shown, cmap="RdBu", vmin=0, vmax=180)
        figure.colorbar(
            image, label="angle (degrees)", ticks=range(0, 181, 30), pad=0.02
        )
        axes.set(xlabel="class", ylabel="class")
        if pair_CC.any():
            i, j = np.unravel_index(shown.argmin(), shown.shape)
            axes.set_title(f"smallest angle {shown.min():.1f}°, classes {i} and {j}")
        _cells(axes, angle_CC, pair_CC, np.abs(angle_CC - 90) > 55, "{:.0f}")


def prototypes_2d(
    path: str | Path,
    global_CD: np.ndarray,
    local_KCD: np.ndarray,
    local_count_KC: np.ndarray,
):
    """Global prototypes (dashed lines) and local ones (points); N Figure 2 (a)-(d)."""
    there_KC = np.asarray(local_count_KC) > 0
    with _figure(path, (4.6, 4)) as figure:
        axes = _plane(figure, "global (lines) and local prototypes (points)")
        for c, colour in enumerate(_class_colours(len(global_CD))):
            x, y = global_CD[c]
            axes.plot([0, x], [0, y], "--", color=colour, lw=1.6, label=f"class {c}")
            points = local_KCD[there_KC[:, c], c]
            axes.scatter(*points.T, color=colour, s=26, lw=0.5, ec="white", zorder=3)
        _class_legend(axes, len(global_CD))


def features_2d(
    path: str | Path,
    feat_MD: np.ndarray,
    y_M: np.ndarray,
    local_CD: np.ndarray,
    local_count_C: np.ndarray,
    title: str,
):
    """A client's test features (points), its prototypes (lines); N Figure 2 (e)-(f)."""
    with _figure(path, (4.6, 4)) as figure:
        axes = _plane(figure, title)
        for c, colour in enumerate(_class_colours(len(local_CD))):
            if local_count_C[c] > 0:
                x, y = local_CD[c]
                axes.plot([0, x], [0, y], color=colour, lw=1.8, zorder=3)
            points = feat_MD[np.asarray(y_M) == c]
            if local_count_C[c] > 0 or len(points):
                axes.scatter([], [], color=colour, s=26, label=f"class {c}")
            axes.scatter(*points.T, color=colour, s=9, alpha=0.35, lw=0)
        _class_legend(axes, len(local_CD))


def angles(mean_CD: np.ndarray) -> np.ndarray:
    """Angles [C, C] between the rows, in degrees."""
    norm_C = np.linalg.norm(mean_CD, axis=1, keepdims=True)
    unit_CD = mean_CD / np.where(norm_C > 0, norm_C, 1)
    return np.degrees(np.arccos(np.clip(unit_CD @ unit_CD.T, -1, 1)))


@contextlib.contextmanager
def _figure(path, size) -> Iterator:
    """A figure of `size` inches, written to `path` at the end.

    Raises:
      UserError: matplotlib is not installed.
    """
    if not available():
        raise UserError(HINT)
    import matplotlib
    from matplotlib.figure import Figure

    style = {"font.size": 9, "axes.titlesize": 10, "savefig.dpi": 200}
    with matplotlib.rc_context(style):
        figure = Figure(size, layout="compressed")
        yield figure
        figure.savefig(path)


def _size(columns, rows, numbered):
    """Inches of a matrix: cells wide enough for their numbers, or as small as fits."""
    width, height = (0.38, 0.26) if numbered else (0.07, 0.07)
    return max(4.2, 1.6 + width * columns), max(3.2, 1 + height * rows)


def _cells(axes, value, shown, light, form):
    """Ticks for every row and column, and each cell's number, where there is room."""
    from matplotlib.ticker import MaxNLocator

    for axis, num in ((axes.xaxis, value.shape[1]), (axes.yaxis, value.shape[0])):
        if num <= 25:
            axis.set_ticks(range(num))
        else:
            axis.set_major_locator(MaxNLocator(10, integer=True))
    if value.size > _READABLE:
        return
    for i, j in zip(*np.nonzero(shown), strict=True):
        colour = "white" if light[i, j] else "black"
        text = form.format(value[i, j])
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=6.5)


def _one_rule(panel, records, rules, rule):
    def series(name, key):
        values = [r["rules"].get(name, {}).get(key) for r in records]
        return 100 * np.array([np.nan if v is None else v for v in values], float)

    rounds = [r["round"] for r in records]
    colour = COLOURS[rules.index(rule) % len(COLOURS)]
    kind = {"color": colour, "mfc": "white", "marker": "o" if len(rounds) == 1 else ""}
    mean, spread = series(rule, "client_mean"), series(rule, "client_std")
    low, high = np.clip([mean - spread, mean + spread], 0, 100)
    band = {"color": colour, "alpha": 0.15, "lw": 0}
    panel.fill_between(rounds, low, high, label="its ± std over clients", **band)
    panel.plot(rounds, mean, "--", label="mean over clients", **kind)
    kind["mfc"] = colour
    panel.plot(rounds, series(rule, "pooled"), label="pooled over samples", **kind)
    for other in rules:
        label = "pooled, other rules" if other == rules[-1] != rule else None
        row = {"color": "0.8", "lw": 0.8, "zorder": 1, "label": label}
        panel.plot(rounds, series(other, "pooled"), **row)
    panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    panel.set_title(rule)
    panel.spines[["top", "right"]].set_visible(False)


def _plane(figure, title):
    axes = figure.add_subplot(aspect="equal", adjustable="datalim", title=title)
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)
    axes.set(xlabel="feature 1", ylabel="feature 2")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _class_colours(num):
    if num <= len(COLOURS):
        return COLOURS[:num]
    import matplotlib

    return matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, num))


def _class_legend(axes, num):
    if num > 20:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize

        colours = ListedColormap(_class_colours(num))
        rows = ScalarMappable(Normalize(-0.5, num - 0.5), colours)
        axes.figure.colorbar(rows, ax=axes, label="class", pad=0.02)
        return
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    axes.legend(fontsize=7, frameon=False, **place)
