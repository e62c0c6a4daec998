"""Global prototypes of last checkpoints: the angles between them, and their places."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.plots.class_geometry import angles
from jaxproto.reporting.figures import tsne
from jaxproto.reporting.html.run_view import SeedGroupView
from jaxproto.saved_runs import restore
from jaxproto.storage import checkpoint
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary import pictures
from jaxproto.summary.pictures import HostProtos

WHICH = ("first", "all", "none")  # runs of a line whose checkpoint is read
MAX_LOCAL_PROTOTYPES = 1500  # local prototypes that are drawn
PERPLEXITY = 30.0
READ_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)  # damage; UserError


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
    how: str  # how the points came to their places


def prototypes(
    lines: Sequence[SeedGroupView], which: str = "first", data_dir: str = ""
) -> tuple[list[Learnt], list[str]]:
    """Returns the prototypes of runs with a checkpoint, and what a reader must know.

    Args:
      which: one of WHICH; "first" is the smallest seed of each line.
      data_dir: where the data sets are now; "" is where the runs found them.
    """
    drawn, notes = list[Learnt](), list[str]()
    for one in _chosen(lines, which):
        try:
            drawn.append(_of_run(one, data_dir))
        except READ_ERRORS as e:
            notes.append(f"{one.name}: {escape_unprintable(str(e))}")
    without = [s.name for line in lines for s in line.runs if not _kept(s)]
    if which == "none":
        notes.append("Checkpoints were not read (--prototypes=none).")
    elif without:
        notes.append(f"No checkpoint in {first_few(without)}.")
    return drawn, notes


def _chosen(lines: Sequence[SeedGroupView], which: str) -> list[RunFolder]:
    if which == "none":
        return []
    found = []
    for line in lines:
        mine = sorted(line.runs, key=lambda one: one.config["seed"])
        kept = [one for one in mine if _kept(one)]
        found += kept if which == "all" else kept[:1]
    return found


def _kept(one: RunFolder) -> bool:
    return bool(checkpoint.rounds(one.path / "checkpoints"))


def _of_run(one: RunFolder, data_dir: str) -> Learnt:
    """Returns the prototypes of the last checkpoint of a run.

    Raises:
      UserError: no checkpoint can be used, or there are no global prototypes.
    """
    run = restore.load(one.path, data_dir)
    learnt = pictures.learnt_prototypes(run.exp, run.state.server, run.state.clients)
    protos = learnt.protos
    if protos is None:
        raise UserError(f"method {run.config.method.name!r} has no global prototypes")
    points, how = plane(protos, learnt.local)
    dimensions = protos.mean.shape[1]
    return Learnt(
        one.name, run.round, dimensions, prototype_angles(protos), points, how
    )


def prototype_angles(protos: HostProtos) -> np.ndarray:
    """Angles [C, C]; nan where a class has no direction, and on the diagonal."""
    mean_CD = np.asarray(protos.mean, float)
    there_C = (protos.count > 0) & (np.linalg.norm(mean_CD, axis=1) > 0)
    pair_CC = there_C[:, None] & there_C & ~np.eye(len(there_C), dtype=bool)
    return np.where(pair_CC, angles(mean_CD), np.nan)


def plane(protos: HostProtos, local: HostProtos | None) -> tuple[Points | None, str]:
    """Global and local prototypes in a plane, and how they came there."""
    there = np.flatnonzero(protos.count > 0)
    values, nobody = np.asarray(protos.mean, float)[there], np.full(len(there), -1)
    parts: list[tuple[np.ndarray, ...]] = [(values, there, nobody)]
    note = ""
    if local is not None and local.mean.shape[-1] == protos.mean.shape[-1]:
        mine, left = _local(local)
        parts.append(mine)
        note = (
            f", {MAX_LOCAL_PROTOTYPES:,} of {left:,} local ones at random"
            if left > MAX_LOCAL_PROTOTYPES
            else ""
        )
    x_PD, label, client = (np.concatenate(p) for p in zip(*parts, strict=True))
    if x_PD.shape[1] == 2:
        return Points(x_PD, label, client), f"their two dimensions{note}"
    if len(x_PD) < 4 or not np.isfinite(x_PD).all():
        return None, "too few of them are there for a picture"
    place, perplexity = tsne.embed(x_PD, PERPLEXITY)
    seed = tsne.SEED
    how = f"t-SNE (scikit-learn) of {x_PD.shape[1]} dimensions, perplexity "
    return Points(place, label, client), f"{how}{perplexity:.3g}, seed {seed}{note}"


def _local(local: HostProtos) -> tuple[tuple[np.ndarray, ...], int]:
    """Values, classes and clients of local prototypes, and how many there are."""
    client, label = np.nonzero(local.count > 0)
    every = len(client)
    if every > MAX_LOCAL_PROTOTYPES:
        rng = np.random.default_rng(tsne.SEED)
        shown = np.sort(rng.choice(every, MAX_LOCAL_PROTOTYPES, replace=False))
        client, label = client[shown], label[shown]
    values = np.asarray(local.mean[client, label], float)
    return (values, label, client), every
