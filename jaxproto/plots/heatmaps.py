"""Matrices: partition, prototypes and their angles, class weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots.canvas import COLOURS, blank

_READABLE = 400  # cells of a matrix that may carry their number
_LARGEST = 16  # inches of a picture: 1,000 clients still have three pixels each
_ROW = 0.13  # inches of a client, as long as there are few


def partition_heatmap(
    path: str | Path,
    counts_KC: np.ndarray,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
):
    """Examples of each class at each client; a blank cell is none.

    Args:
      path: of the PNG file.
      counts_KC: examples.
      clients: numbers of the rows; 0, 1, ... by default.
      classes: numbers of the columns, likewise.
    """
    counts_KC = np.asarray(counts_KC)
    num_K, num_C = counts_KC.shape
    size = _size(num_C, num_K, counts_KC.size <= _READABLE)
    with blank(path, size) as figure:
        import matplotlib
        from matplotlib.colors import ListedColormap, LogNorm

        blues = matplotlib.colormaps["Blues"](np.linspace(0.12, 1, 256))
        axes = figure.add_subplot()
        shown = np.ma.masked_equal(counts_KC, 0)
        scale = LogNorm(1, max(counts_KC.max(), 10))
        image = axes.imshow(shown, ListedColormap(blues), norm=scale, aspect="auto")
        bar = {"label": "examples (log scale; blank: none)", "aspect": 6 * size[1]}
        figure.colorbar(image, pad=0.02, **bar)
        axes.set(xlabel="class", ylabel="client")
        axes.set_title(
            f"{num_K} clients, {num_C} classes, {counts_KC.sum():,} examples"
        )
        dark = np.asarray(scale(np.maximum(counts_KC, 1))) > 0.6
        names = classes, clients
        _cells(axes, counts_KC, counts_KC > 0, dark, "{:d}", names)


def prototype_angles(
    path: str | Path,
    mean_CD: np.ndarray,
    count_C: np.ndarray,
    classes: Sequence[int] | None = None,
):
    """Angles between class prototypes in degrees; absent classes are grey.

    Args:
      path: of the PNG file.
      mean_CD: global prototypes.
      count_C: 0 where a class has none.
      classes: numbers of the rows; 0, 1, ... by default.
    """
    names = range(len(mean_CD)) if classes is None else classes
    angle_CC, pair_CC = angles(mean_CD), _pairs(mean_CD, count_C)
    with blank(path, _square(len(pair_CC))) as figure:
        axes, shown = figure.add_subplot(), np.ma.masked_where(~pair_CC, angle_CC)
        scale = {"cmap": "RdBu", "vmin": 0, "vmax": 180}
        image = _between_classes(axes, shown, scale)
        figure.colorbar(
            image, label="angle (degrees)", ticks=range(0, 181, 30), pad=0.02
        )
        if pair_CC.any():
            i, j = map(int, np.unravel_index(shown.argmin(), shown.shape))
            which = f"classes {names[i]} and {names[j]}"
            axes.set_title(f"smallest angle {shown.min():.1f}°, {which}")
        dark = np.abs(angle_CC - 90) > 55
        _cells(axes, angle_CC, pair_CC, dark, "{:.0f}", (names, names))


def cosine_similarity(
    path: str | Path,
    mean_CD: np.ndarray,
    count_C: np.ndarray,
    note: str = "",
    classes: Sequence[int] | None = None,
):
    """Cosine similarity of class prototypes (S Figure 2); absent classes are grey.

    Args:
      path: of the PNG file.
      mean_CD: global prototypes.
      count_C: 0 where a class has none.
      note: a second line of the title.
      classes: numbers of the rows; 0, 1, ... by default.
    """
    names = range(len(mean_CD)) if classes is None else classes
    cos_CC, pair_CC = cosines(mean_CD), _pairs(mean_CD, count_C)
    with blank(path, _square(len(pair_CC))) as figure:
        axes, shown = figure.add_subplot(), np.ma.masked_where(~pair_CC, cos_CC)
        scale = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1}
        image = _between_classes(axes, shown, scale)
        figure.colorbar(image, label="cosine similarity", pad=0.02)
        title = ""
        if pair_CC.any():
            i, j = map(int, np.unravel_index(shown.argmax(), shown.shape))
            most = f"largest {shown.max():.2f}, classes {names[i]} and {names[j]}"
            title = f"mean {shown.mean():.2f}, {most}"
        axes.set_title("\n".join(filter(None, [title, note])))
        no_minus_zero = np.round(cos_CC, 2) + 0.0
        dark = np.abs(cos_CC) > 0.65
        _cells(axes, no_minus_zero, pair_CC, dark, "{:.2f}", (names, names))


def prototype_heatmap(
    path: str | Path,
    proto_KD: np.ndarray,
    title: str,
    mask_D: np.ndarray | None = None,
    rows: Sequence | None = None,
    what: str = "client",
    binary: bool = False,
):
    """Prototypes x dimensions: one class's local ones, or the global ones.

    T Figure 2; S Figures 1 and 4 to 9. White cells are zeros (dead units), grey rows
    clients without a prototype (all zeros). Colours end at the 99th percentile of what
    is not zero. Two panels on one scale where CPS has a mask: as computed, and what
    the mask leaves.

    Args:
      path: of the PNG file.
      proto_KD: the prototypes; zeros where a client has none.
      title: of the picture.
      mask_D: the class's mask, None without CPS.
      rows: names of the rows; 0, 1, ... by default.
      what: what a row is.
      binary: with each panel, one that only tells what is above 0.
    """
    proto_KD, num_D = np.asarray(proto_KD), np.shape(proto_KD)[1]
    scale = _scale(proto_KD)
    shown = {"": proto_KD}
    if mask_D is not None:
        with_cps = f"with CPS: {np.count_nonzero(mask_D)} of {num_D} dimensions"
        masked_KD = np.where(np.asarray(mask_D) > 0, proto_KD, 0)
        shown = {"without CPS": proto_KD, with_cps: masked_KD}
    if binary:
        shown |= {f"{name} above 0".strip(): v > 0 for name, v in shown.items()}
    rows_high = len(shown) * max(1.5, 0.5 + _ROW * min(len(proto_KD), 60))
    size = (np.clip(1.7 + 0.012 * num_D, 4.6, 12), 1.0 + rows_high)
    with blank(path, size) as figure:
        images = []
        below = figure.subplots(len(shown), sharex=True, squeeze=False)[:, 0]
        for axes, (name, value_KD) in zip(below, shown.items(), strict=True):
            images.append(_one_class(axes, value_KD, scale, rows))
            for k in np.flatnonzero(~np.any(proto_KD, axis=1)):
                axes.axhspan(k - 0.5, k + 0.5, color="0.88", lw=0)
            axes.set_title(name, fontsize=9)
            axes.set_ylabel(what)
        below[-1].set_xlabel("feature dimension (white: exactly 0; grey: no prototype)")
        figure.suptitle(title, fontsize=10)
        ends = "both" if scale["vmin"] < 0 else "max"
        bar = {"label": "value", "extend": ends, "aspect": 5 * rows_high}
        figure.colorbar(images[0], ax=below, pad=0.02, **bar)


def head_norms(
    path: str | Path,
    head_norm_KC: np.ndarray,
    count_KC: np.ndarray,
    axis: int = 1,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
):
    """Norms of class weights beside the data distribution, both scaled (S Figure 3).

    Args:
      path: of the PNG file.
      head_norm_KC: |phi_ij|_2, the length of the weights of class j at client i.
      count_KC: training examples n_ij.
      axis: as in `frobenius`.
      clients: rows that are shown of the scaled matrices; all by default.
      classes: columns, likewise.
    """
    shown = {
        "training examples": min_max(count_KC, axis),
        "norm of class weights": min_max(head_norm_KC, axis),
    }
    distance = frobenius(head_norm_KC, count_KC, axis)
    title = f"Frobenius distance {distance:.2f}"
    _scaled(path, shown, {}, title, axis, clients, classes)


def head_norm_difference(
    path: str | Path,
    runs: dict[str, np.ndarray],
    count_KC: np.ndarray,
    axis: int = 1,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
):
    """As `head_norms` for two runs, and what they differ in (S Figures 3 and 10).

    Args:
      path: of the PNG file.
      runs: {name: |phi_ij|_2}, two.
      count_KC: training examples n_ij of both.
      axis: as in `frobenius`.
      clients: rows that are shown of the scaled matrices; all by default.
      classes: columns, likewise.
    """
    shown = {"training examples": min_max(count_KC, axis)}
    told = []
    for name, norm_KC in runs.items():
        shown[name] = min_max(norm_KC, axis)
        told.append(f"{name} {frobenius(norm_KC, count_KC, axis):.2f}")
    first, second = (min_max(norm_KC, axis) for norm_KC in runs.values())
    gap = {"second - first": second - first}
    title = "Frobenius distance to the data: " + ", ".join(told)
    _scaled(path, shown, gap, title, axis, clients, classes)


def _scaled(path, shown, gaps, title, axis, clients, classes):
    """Matrices from 0 to 1 side by side, then differences from -1 to 1."""
    whole = next(iter(shown.values())).shape
    clients, classes = (
        list(range(n)) if asked is None else list(asked)
        for n, asked in zip(whole, (clients, classes), strict=True)
    )
    num_K, num_C = len(clients), len(classes)
    width, height = _size(num_C, num_K, False)
    how = ("over clients", "over a client's classes")[axis]
    total = len(shown) + len(gaps)
    size = (min(max(3.2 * total, total * width - total / 2), 20), height + 0.3)
    with blank(path, size) as figure:
        columns = figure.subplots(ncols=total, sharey=True)
        scales = [("viridis", 0)] * len(shown) + [("RdBu", -1)] * len(gaps)
        for axes, (name, value_KC), (cmap, low) in zip(
            columns, {**shown, **gaps}.items(), scales, strict=True
        ):
            part_KC = value_KC[np.ix_(clients, classes)]
            image = axes.imshow(part_KC, cmap, vmin=low, vmax=1, aspect="auto")
            axes.set(xlabel="class")
            axes.set_title(name, fontsize=9)
            _ticks(axes, part_KC, (classes, clients))
            if axes is columns[len(shown) - 1]:
                label = f"scaled from 0 to 1 {how}"
                figure.colorbar(image, ax=columns[: len(shown)], label=label, pad=0.02)
        if gaps:
            figure.colorbar(image, ax=columns[len(shown) :], label="difference")
        columns[0].set_ylabel("client")
        figure.suptitle(title, fontsize=10)


def frobenius(head_norm_KC: np.ndarray, count_KC: np.ndarray, axis: int = 1) -> float:
    """Frobenius norm of the difference of the two matrices, each scaled to 0 to 1.

    The paper scales "column-wise" by minimum and maximum and does not say what its
    columns are. Here a client's classes are scaled together (axis 1): the relation it
    cites, |phi_ij| / |phi_ik| = n_ij / n_ik, is between the classes of one client.

    Args:
      head_norm_KC: |phi_ij|_2, without biases.
      count_KC: examples n_ij.
      axis: over which minimum and maximum are taken; 1: classes, 0: clients.
    """
    gap_KC = min_max(head_norm_KC, axis) - min_max(count_KC, axis)
    return float(np.linalg.norm(gap_KC))


def min_max(value_KC: np.ndarray, axis: int) -> np.ndarray:
    """Each row (axis 1) or column (axis 0) from 0 to 1; zeros where all are equal."""
    value_KC = np.asarray(value_KC, float)
    low, high = (f(value_KC, axis, keepdims=True) for f in (np.min, np.max))
    return (value_KC - low) / np.where(high > low, high - low, 1)


def cosines(mean_CD: np.ndarray) -> np.ndarray:
    """Cosine similarity [C, C] of the rows; 0 for a row of zeros."""
    norm_C1 = np.linalg.norm(mean_CD, axis=1, keepdims=True)
    unit_CD = mean_CD / np.where(norm_C1 > 0, norm_C1, 1)
    return np.clip(unit_CD @ unit_CD.T, -1, 1)


def angles(mean_CD: np.ndarray) -> np.ndarray:
    """Angles [C, C] between the rows, in degrees."""
    return np.degrees(np.arccos(cosines(mean_CD)))


def _pairs(mean_CD, count_C):
    """Pairs of classes that have a direction."""
    there_C = (np.asarray(count_C) > 0) & (np.linalg.norm(mean_CD, axis=1) > 0)
    return there_C[:, None] & there_C & ~np.eye(len(there_C), dtype=bool)


def _between_classes(axes, shown_CC, scale):
    axes.set_facecolor("0.85")
    axes.set(xlabel="class", ylabel="class")
    return axes.imshow(shown_CC, **scale)


def _scale(value):
    """A scale that single outliers do not stretch; dark at 0, as zeros are white."""
    apart = np.abs(value[value != 0])
    most = float(np.percentile(apart, 99)) if apart.size else 1.0
    if np.min(value) >= 0:
        return {"cmap": "viridis", "vmin": 0.0, "vmax": most}
    return {"cmap": "berlin", "vmin": -most, "vmax": most}


def _one_class(axes, value_KD, scale, rows):
    shown_KD = np.ma.masked_equal(value_KD, 0)
    _ticks(axes, shown_KD, (None, rows))
    style = {"aspect": "auto", "interpolation": "nearest"}
    if value_KD.dtype == bool:
        from matplotlib.colors import ListedColormap

        style, scale = style | {"cmap": ListedColormap([COLOURS[0]])}, {}
    return axes.imshow(shown_KD, **style, **scale)


def _square(num):
    return _size(num, num, num**2 <= _READABLE)


def _size(columns, rows, numbered):
    """Inches of a matrix: cells wide enough for their numbers, or as small as fits."""
    width, height = (0.38, 0.26) if numbered else (0.07, 0.07)
    wide, high = max(4.2, 1.6 + width * columns), max(3.2, 1 + height * rows)
    return min(wide, _LARGEST), min(high, _LARGEST)


def _ticks(axes, value, names=(None, None)):
    """A tick for every column and row where there is room; with their names."""
    from matplotlib.ticker import MaxNLocator

    sizes = value.shape[1], value.shape[0]
    for axis, num, named in zip((axes.xaxis, axes.yaxis), sizes, names, strict=True):
        if named is not None and list(named) != list(range(num)):
            step = -(-num // 25)
            axis.set_ticks(range(0, num, step), [str(n) for n in named][::step])
        elif num <= 25:
            axis.set_ticks(range(num))
        else:
            axis.set_major_locator(MaxNLocator(10, integer=True))


def _cells(axes, value, shown, light, form, names=(None, None)):
    """Ticks, and each cell's number, where there is room."""
    _ticks(axes, value, names)
    if value.size > _READABLE:
        return
    for i, j in zip(*np.nonzero(shown), strict=True):
        colour = "white" if light[i, j] else "black"
        text = form.format(value[i, j])
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=6.5)
