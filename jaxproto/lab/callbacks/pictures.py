"""Pictures of a finished run, written into its `plots/`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from jaxproto.core import batches
from jaxproto.experiment.build import Experiment
from jaxproto.io import atomic
from jaxproto.lab import plots
from jaxproto.round.federation import Model
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary.host_prototypes import (
    HostProtos,
    LearntPrototypes,
    head_norms,
    learnt_prototypes,
    mean_or_zero,
    note_of,
)
from jaxproto.summary.progress_lines import progress_line
from jaxproto.training.client_store import Clients

Picture = Callable[[Path], None]  # draws it into a file


def draw_all(
    exp: Experiment, model: Model, path: Path, console: Console, name: str = ""
):
    """Draws the partition, accuracies, prototypes and heads of a run.

    Without matplotlib it prints how to install it and draws nothing.

    Args:
      path: work directory, with the run's records; pictures go into its `plots/`.
      console: for the progress, or a note that matplotlib is not installed.
      name: name of the run in titles; that of the folder by default.
    """
    if not plots.available():
        console.print(f"no pictures: {plots.HINT}", markup=False)
        return
    folder = path / "plots"
    with atomic.write_errors(folder, 0):
        folder.mkdir(exist_ok=True)
    records, name = RunFolder.at(path).records, name or path.name
    pictures = _record_pictures(exp, records, name)
    pictures |= _prototype_pictures(exp, model, name)
    with progress_line(console, "drawing", "pictures", len(pictures)) as done:
        for stem, draw in pictures.items():
            draw(folder / f"{stem}.png")
            done(stem)


def _record_pictures(exp: Experiment, records, name: str) -> dict[str, Picture]:
    """Returns the pictures of the partition and of the records."""
    train_KC = exp.counts.train
    pictures = {
        "partition": lambda to: plots.partition_heatmap(to, train_KC, name=name)
    }
    if not records:
        return pictures
    pictures["accuracy"] = lambda to: plots.accuracy_over_rounds(to, records, name)
    runs = {name: [records]}
    pictures["bytes"] = lambda to: plots.accuracy_against_bytes(to, runs)
    if exp.timing:
        pictures["time"] = lambda to: plots.accuracy_against_seconds(to, runs)
    rounds, values = every_round(records, "alignment_iterations")
    if np.isfinite(values).any():
        line = plots.band(name, rounds, np.array([values]))
        pictures["iterations"] = lambda to: iterations(to, [line])
    return pictures


def _prototype_pictures(exp: Experiment, model: Model, name: str) -> dict[str, Picture]:
    """Returns the pictures of prototypes and heads."""
    (server, clients), pictures = model, dict[str, Picture]()
    learnt = learnt_prototypes(exp, server, clients)
    protos, local = learnt.protos, learnt.local
    norm_KC, dim = head_norms(exp.cohorts, clients), exp.spec.feat_dim
    if protos is not None:
        drawn = protos, dim, name, list(range(len(protos.mean)))
        pictures["angles"] = lambda to: angles(to, *drawn)
        pictures["global_prototypes"] = lambda to: global_values(to, *drawn)
    if local is not None and np.any(local.count > 0):
        pictures["local_prototypes"] = lambda to: local_values(to, learnt, name)
    if norm_KC is not None:
        counts = exp.counts.train
        pictures["heads"] = lambda to: plots.head_norms(to, {name: norm_KC}, counts)
    if learnt.client_view is not None and local is not None and dim == 2:
        global_CD = mean_or_zero(learnt.client_view)
        pictures |= _planes(exp, clients, global_CD, local, name)
    return pictures


def iterations(path: Path, lines: Sequence[plots.Band], note: str = ""):
    """Draws the iterations of the alignment in every round that has them."""
    ylabel = "iterations of the alignment"
    plots.bands(path, {"": lines}, "round", ylabel, note=note, whole=True)


def every_round(records, name: str) -> tuple[list[int], list[float]]:
    """Returns the rounds that have a value `name`, and the values."""
    rounds: list[int] = []
    values: list[float] = []
    for record in records:
        since_last = record.get("every_round", {}).get(name, [])
        rounds += range(record["round"] - len(since_last) + 1, record["round"] + 1)
        values += [np.nan if v is None else v for v in since_last]
    return rounds, values


def _title(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def angles(
    path: Path, protos: HostProtos, feat_dim: int, name: str, classes: list[int]
):
    """Draws the angles between global prototypes of some classes."""
    title = _title(name, note_of(protos, feat_dim))
    mean_CD, count_C = protos.mean[classes], protos.count[classes]
    plots.prototype_angles(path, mean_CD, count_C, classes, title)


def global_values(
    path: Path, protos: HostProtos, feat_dim: int, name: str, classes: list[int], **more
):
    """Draws the values of global prototypes of some classes."""
    title = _title(name, "global prototypes", note_of(protos, feat_dim))
    value_CD = mean_or_zero(protos)[classes]
    plots.prototype_heatmap(path, value_CD, title, rows=classes, what="class", **more)


def local_values(
    path: Path,
    learnt: LearntPrototypes,
    name: str,
    class_id: int | None = None,
    clients: Sequence[int] | None = None,
    **more,
):
    """Draws the local prototypes of a class, and the global one as clients use it.

    Args:
      learnt: prototypes of the run, with local ones.
      class_id: the class; by default the one that most clients hold.
      clients: ids of the clients; all by default.
      **more: arguments of `plots.prototype_heatmap`.
    """
    local = learnt.local
    assert local is not None
    c = int((local.count > 0).sum(0).argmax()) if class_id is None else class_id
    ids = list(range(len(local.mean)) if clients is None else clients)
    value_KD, rows = mean_or_zero(local)[ids, c], [f"client {i}" for i in ids]
    dim = value_KD.shape[1]
    viewed, protos = learnt.client_view, learnt.protos
    if viewed is not None and protos is not None and viewed.mean.shape[1] == dim:
        value_KD = np.concatenate([value_KD, mean_or_zero(viewed)[[c]]])
        as_sent = np.array_equal(viewed.mean[c], protos.mean[c])
        rows.append("global" if as_sent else "global, as used")
    mask_CD, holders = learnt.mask_CD, np.count_nonzero(local.count[:, c] > 0)
    mask_D = None if mask_CD is None or mask_CD.shape[1] != dim else mask_CD[c]
    title = f"local prototypes of class {c}, held by {holders} of {len(local.count)}"
    more |= {"mask_D": mask_D, "rows": rows, "what": "prototype"}
    plots.prototype_heatmap(path, value_KD, _title(name, f"{title} clients"), **more)


def _planes(exp: Experiment, clients: Clients, global_CD, local: HostProtos, name: str):
    """Returns pictures of prototypes and features of two dimensions."""
    arrows = [plots.prototype_plane(name, global_CD, local.mean, local.count)]
    ids = default_clients(local.count)
    return {
        "prototypes": lambda to: plots.prototypes_2d(to, arrows),
        "features": lambda to: plots.features_grid(
            to, [feature_plane(exp, clients, local, i, name) for i in ids]
        ),
    }


def default_clients(count_KC: np.ndarray) -> list[int]:
    """Returns the two clients of most classes, whose features are drawn by default."""
    classes_K = (np.asarray(count_KC) > 0).sum(1)
    return sorted(np.argsort(-classes_K, kind="stable")[:2].tolist())


def feature_plane(
    exp: Experiment, clients: Clients, local: HostProtos, i: int, name: str
) -> plots.Plane:
    """Returns the test features and the prototypes of a client."""
    feat_MD, y_M = features(exp, clients, i, exp.partition.test[i])
    title = f"{name}, client {i}"
    return plots.Plane(title, feat_MD, y_M, local.mean[i], local.count[i])


def features(
    exp: Experiment, clients: Clients, i: int, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns features [M, D] by the network of client i, and labels, of rows [M]."""
    for cohort, stacked in zip(exp.cohorts, clients, strict=True):
        if i in cohort.ids:
            k = cohort.ids.index(i)
            client = jax.tree.map(lambda a, k=k: a[k], stacked)
            x = batches.normalise_inputs(jnp.asarray(exp.dataset.x[rows]))
            feat_MD = exp.method.features(cohort.net, client, x)
            return np.asarray(feat_MD), exp.dataset.y[rows]
    raise ValueError(f"no client {i}")
