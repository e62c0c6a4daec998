"""Global prototypes of last checkpoints: the angles between them, and their places."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.plots.class_geometry import angles
from jaxproto.reporting.figures import class_geometry, tsne
from jaxproto.reporting.html.run_view import SeedGroupView
from jaxproto.saved_runs import restore
from jaxproto.storage import checkpoint
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary.host_prototypes import HostProtos, learnt_prototypes

WHICH = ("first", "all", "none")  # runs of a line whose checkpoint is read
MAX_LOCAL_PROTOTYPES = 1500  # at most, in the picture of a run
PERPLEXITY = 30.0
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

    Args:
      lines: Runs that differ in the seed alone, by line.
      which: One of WHICH; "first" is the smallest seed of each line.
      data_dir: Folder of the data sets now; "" is where the runs found them.
    """
    learnt, notes = list[Learnt](), list[str]()
    for run in _chosen(lines, which):
        try:
            learnt.append(_of_run(run, data_dir))
        except (UserError, *DAMAGED) as e:
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
        return bool(checkpoint.rounds(run.path / "checkpoints"))
    except (UserError, OSError):
        return True  # `_of_run` raises the error again


def _of_run(folder: RunFolder, data_dir: str) -> Learnt:
    """Returns the prototypes of the last checkpoint of a run.

    Raises:
      UserError: no checkpoint can be used, or there are no global prototypes.
    """
    run = restore.load(folder.path, data_dir)
    learnt = learnt_prototypes(run.exp, run.state.server, run.state.clients)
    protos = learnt.protos
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
