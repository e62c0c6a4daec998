"""Global prototypes of last checkpoints: angles between them, places in a plane."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.plots.class_geometry import angles
from jaxproto.reporting.figures import class_geometry, tsne
from jaxproto.reporting.html import figure
from jaxproto.reporting.html.figure import Option, When
from jaxproto.reporting.html.run_view import SeedGroupView
from jaxproto.saved_runs import restore
from jaxproto.storage import checkpoint
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary.host_prototypes import HostProtos, learnt_prototypes

WHICH = ("first", "all", "none")  # runs of a line whose checkpoint is read
MAX_LOCAL_PROTOTYPES = 1500  # at most, in the picture of a run
PERPLEXITY = 30.0
FEW = 12  # classes up to which cells have angles as text
NAMED = 20  # classes up to which stars have names
MARKERS = {
    "local": {"symbol": "triangle-up", "size": 8, "opacity": 0.7},
    "global": {"symbol": "star", "size": 17, "line": {"width": 1.5, "color": "#888"}},
}
ABOUT = "Stars: global prototypes; triangles: local ones, in the colour of their class"
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)


class Points(NamedTuple):
    """Prototypes in a plane."""

    place: np.ndarray  # [P, 2]
    label: np.ndarray  # [P] class
    client: np.ndarray  # [P], -1 of global ones


class Learnt(NamedTuple):
    """Global prototypes of a run."""

    run: str
    round: int
    dimensions: int
    angles: np.ndarray  # [C, C] degrees, nan where there is none
    points: Points | None  # None if they are too few for a picture
    how: str  # how the points were placed, or why there are none


def prototypes(
    lines: Sequence[SeedGroupView], which: str = "first", data_dir: str = ""
) -> tuple[list[Learnt], list[str]]:
    """Returns the prototypes of runs with a checkpoint, and notes on the other runs.

    `which` is one of WHICH; "first" is the smallest seed of each line.
    """
    learnt, notes = list[Learnt](), list[str]()
    for run in _chosen(lines, which):
        try:
            learnt.append(_of_run(run, data_dir))
        except DAMAGED as e:
            notes.append(f"{run.name}: {escape_unprintable(str(e))}")
    runs = [run for line in lines for run in line.runs]
    without = [run.name for run in runs if not _has_checkpoint(run)]
    if which == "none":
        notes.append("Checkpoints were not read (--prototypes=none).")
    elif without:
        notes.append(f"No checkpoint in {first_few(without)}.")
    return learnt, notes


def _chosen(lines: Sequence[SeedGroupView], which: str) -> Iterator[RunFolder]:
    limit = {"none": 0, "first": 1, "all": None}[which]
    for line in lines:
        by_seed = sorted(line.runs, key=lambda run: run.config["seed"])
        yield from list(filter(_has_checkpoint, by_seed))[:limit]


def _has_checkpoint(run: RunFolder) -> bool:
    try:
        return bool(checkpoint.rounds(run.folder / "checkpoints"))
    except (UserError, OSError):
        return True  # `_of_run` raises the error again


def _of_run(folder: RunFolder, data_dir: str) -> Learnt:
    """Returns the prototypes of the last checkpoint of a run.

    Raises:
      UserError: no checkpoint can be used, or there are no global prototypes.
    """
    run = restore.load(folder.path, data_dir)
    learnt = learnt_prototypes(run.exp, run.state.server, run.state.clients)
    protos = learnt.client_view  # in the space of the local ones
    if protos is None:
        raise UserError(f"method {run.config.method.name!r} has no global prototypes")
    angle_CC, dimensions = prototype_angles(protos), protos.mean.shape[1]
    placed = plane(protos, learnt.local)
    return Learnt(folder.name, run.round, dimensions, angle_CC, *placed)


def prototype_angles(protos: HostProtos) -> np.ndarray:
    """Returns angles [C, C], nan on the diagonal and for classes without direction."""
    mean_CD = np.asarray(protos.mean, float)
    known_C = (protos.count > 0) & (np.linalg.norm(mean_CD, axis=1) > 0)
    return np.where(class_geometry.pairs(known_C), angles(mean_CD), np.nan)


def plane(protos: HostProtos, local: HostProtos | None) -> tuple[Points | None, str]:
    """Returns global and local prototypes in a plane, and how they were placed."""
    label = np.flatnonzero(protos.count > 0)
    mean_PD, client = np.asarray(protos.mean, float)[label], np.full(len(label), -1)
    note = ""
    if local is not None and local.mean.shape[-1] == protos.mean.shape[-1]:
        owners = np.argwhere(local.count > 0)  # [P, 2] client and class
        if (num := len(owners)) > MAX_LOCAL_PROTOTYPES:
            rng = np.random.default_rng(tsne.SEED)
            owners = owners[np.sort(rng.choice(num, MAX_LOCAL_PROTOTYPES, False))]
            note = f", {MAX_LOCAL_PROTOTYPES:,} of {num:,} local ones at random"
        mean_PD = np.concatenate([mean_PD, np.asarray(local.mean, float)[*owners.T]])
        client = np.concatenate([client, owners[:, 0]])
        label = np.concatenate([label, owners[:, 1]])
    if mean_PD.shape[1] == 2:
        return Points(mean_PD, label, client), f"their two dimensions{note}"
    if len(mean_PD) < 4 or not np.isfinite(mean_PD).all():
        return None, "too few of them are there for a picture"
    place, perplexity = tsne.embed(mean_PD, PERPLEXITY)
    how = f"t-SNE (scikit-learn) of {mean_PD.shape[1]} dimensions, perplexity "
    how += f"{perplexity:.3g}, seed {tsne.SEED}{note}"
    return Points(place, label, client), how


def figures(learnt: Sequence[Learnt]) -> dict:
    """Returns the figures of the prototypes of each run, their options and captions."""
    choices: list[When] = [{"run": str(i)} for i in range(len(learnt))]
    pairs = list(zip(learnt, choices, strict=True))
    planes = [(protos.points, when) for protos, when in pairs if protos.points]
    marks = [_marks(*plane, kind) for plane in planes for kind in MARKERS]
    axis = {"type": "category", "title": "class", **figure.BARE}
    angles = [_heatmap(*pair) for pair in pairs]
    axes = {}
    for protos, when in pairs:  # axes are the dimensions themselves, if they are two
        is_2d = protos.dimensions == 2
        ticks = {f"{axis}axis.showticklabels": is_2d for axis in "xy"}
        axes[when["run"]] = ticks | {"yaxis.scaleanchor": "x" if is_2d else None}
    layout = {"meta": {"layout": {"run": axes}}}
    lines = {"xaxis_zeroline": False, "yaxis_zeroline": False}
    return {
        "options": [Option(protos.run, value=when["run"]) for protos, when in pairs],
        "angles": figure.as_html("plot-angles", angles, xaxis=axis, yaxis=axis),
        "about_angles": [Option(_about(protos), [when]) for protos, when in pairs],
        "plane": figure.as_html("plot-plane", marks, **layout, **lines),
        "about_plane": [
            Option(f"{ABOUT}; {protos.how}.", [when]) for protos, when in pairs
        ],
    }


def _about(protos: Learnt) -> str:
    run = f"{protos.run}, round {protos.round}"
    if np.isnan(protos.angles).all():
        return f"{run}: no two classes have a global prototype."
    return (
        f"{run}: angles between global prototypes, "
        f"{protos.dimensions} dimensions: smallest {np.nanmin(protos.angles):.1f}, "
        f"mean {np.nanmean(protos.angles):.1f} degrees."
    )


def _heatmap(protos: Learnt, when: When) -> dict:
    classes = [str(c) for c in range(len(protos.angles))]
    texts = "%{z:.0f}" if len(classes) <= FEW else ""
    hover = "classes %{y} and %{x}: %{z:.1f} degrees<extra></extra>"
    more = {"texttemplate": texts, "hovertemplate": hover}
    values = protos.angles.round(2)
    return figure.heatmap(when, values, classes, classes, "degrees", **more)


def _marks(points: Points, when: When, kind: str) -> dict:
    """Returns the marks of global or local prototypes, coloured by class."""
    classes = np.unique(points.label).tolist()
    few = len(classes) <= len(figure.COLOURS)
    colours = {
        c: figure.colour(i) if few else f"hsl({360 * i // len(classes)},65%,50%)"
        for i, c in enumerate(classes)
    }
    rows = np.flatnonzero((points.client < 0) == (kind == "global"))
    labels, clients = points.label[rows].tolist(), points.client[rows].tolist()
    x, y = ([float(f"{v:.5g}") for v in axis] for axis in points.place[rows].T)
    named = kind == "global" and len(classes) <= NAMED
    owners = zip(labels, clients, strict=True)
    return figure.trace(
        "scatter",
        when,
        mode="markers+text" if named else "markers",
        name=f"{kind} prototype",
        x=x,
        y=y,
        text=list(map(str, labels)),
        textposition="top center",
        customdata=[f"class {c}" + f", client {k}" * (k >= 0) for c, k in owners],
        marker=MARKERS[kind] | {"color": [colours[c] for c in labels]},
        hovertemplate="%{fullData.name}, %{customdata}<extra></extra>",
    )
