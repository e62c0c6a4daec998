"""Every picture of a finished run, into `plots/`."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from jaxproto import batches, federation, plots
from jaxproto import masks as masks_
from jaxproto.config.build import Experiment
from jaxproto.data import files
from jaxproto.method import Method
from jaxproto.methods import refprotofl
from jaxproto.report import stages
from jaxproto.storage import records as metrics
from jaxproto.types import Client, Data, Examples, Protos, Shard, Tree

SPIRAL_CLIENTS = (2, 5)  # N Figure 2 (e), (f)
HEADS = (  # what classifies: RefProtoFL's adapter, if there is one, else the network
    "['adapter']['head']['kernel']",
    "['net']['head']['kernel']",
)


Picture = Callable[[Path], None]  # draws it into a file


class Trained(NamedTuple):
    """A federation after a round."""

    exp: Experiment
    examples: Examples
    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]


def draw(trained: Trained, path: Path, console: Console, upscale: float = 1.0):
    """Draws what the run has: partition and accuracies, and what was learnt.

    Without matplotlib it says how to get it and draws nothing.

    Args:
      trained: the federation after its last round.
      path: work directory, with the run's records; pictures go into its `plots/`.
      console: where it says what it draws, or that there is no matplotlib.
      upscale: gamma, the factor of the global prototypes that pull clients.

    Raises:
      Unwritable: a picture cannot be written.
    """
    if not plots.available():
        console.print(f"no pictures: {plots.HINT}")
        return
    folder = path / "plots"
    with files.writing(folder, 0):
        folder.mkdir(exist_ok=True)
    records = metrics.read(path / "metrics.jsonl")
    drawn = _of_records(trained.exp, records, path.name)
    drawn |= _of_learnt(trained, upscale)
    with stages.counted(console, "drawing", "pictures", len(drawn)) as done:
        for name, picture in drawn.items():
            picture(folder / f"{name}.png")
            done(name)


def _of_records(exp: Experiment, records, name: str) -> dict[str, Picture]:
    """Of the partition and of what was measured."""
    train_KC = exp.counts.train
    drawn = {"partition": lambda to: plots.partition_heatmap(to, train_KC)}
    if not records:
        return drawn
    drawn["accuracy"] = lambda to: plots.accuracy_over_rounds(to, records)
    drawn["bytes"] = lambda to: plots.accuracy_against_bytes(to, {name: records})
    at, values = every_round(records, "alignment_iterations")
    if np.isfinite(values).any():
        drawn["iterations"] = lambda to: _iterations(to, name, at, values)
    return drawn


def _of_learnt(trained: Trained, upscale: float) -> dict[str, Picture]:
    """Of prototypes and heads."""
    exp, drawn = trained.exp, dict[str, Picture]()
    mask_CD, learnt, local = learnt_by(exp, trained.server, trained.clients)
    norm_KC = head_norms(exp.cohorts, trained.clients)
    if learnt is not None:
        drawn |= _global(learnt, exp.spec.feat_dim)
    if local is not None and np.any(local.count > 0):
        drawn["local_prototypes"] = lambda to: _local(to, local, mask_CD)
    if norm_KC is not None:
        drawn["heads"] = lambda to: plots.head_norms(to, norm_KC, exp.counts.train)
    if learnt is not None and local is not None and exp.spec.feat_dim == 2:
        drawn |= _planes(trained, learnt.mean * upscale, local)
    return drawn


@dataclasses.dataclass(frozen=True)
class HostProtos:
    """Prototypes on the host; as `types.Protos`."""

    mean: np.ndarray  # [..., C, D]
    count: np.ndarray  # [..., C]


class Learnt(NamedTuple):
    """Prototypes after a round; None where there are none."""

    mask_CD: np.ndarray | None  # of CPS
    protos: HostProtos | None  # global ones, in the places of the masks
    local: HostProtos | None  # [K, C, D] by client id


def learnt_by(exp: Experiment, server: Tree, clients: Sequence[Client]) -> Learnt:
    """What the server broadcasts and what clients remember."""
    mask_CD = masks(exp.method, exp.spec.feat_dim)
    learnt = on_host(protos_in(exp.method.broadcast(server)))
    memory = [protos_in(c.memory) for c in clients]
    local = on_host(federation.by_id(exp.cohorts, memory))
    learnt = learnt if learnt is None else spread(learnt, mask_CD)
    return Learnt(mask_CD, learnt, local)


def protos_in(tree: Tree) -> Protos | None:
    """The first prototypes in a tree; None if there are none."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Protos))
    return next((node for node in leaves if isinstance(node, Protos)), None)


def on_host(protos: Protos | None) -> HostProtos | None:
    """Prototypes as numpy arrays; None if there are none."""
    if protos is None:
        return None
    return HostProtos(np.asarray(protos.mean), np.asarray(protos.count))


def masks(method: Method, feat_dim: int) -> np.ndarray | None:
    """The CPS masks [C, D], bool, if the method sends some before the first round."""
    leaves = jax.tree.leaves(method.setup, is_leaf=_is_masks)
    sent = next((node.masks for node in leaves if _is_masks(node)), None)
    if sent is None or sent.dtype == bool:
        return sent if sent is None else np.asarray(sent)
    return masks_.bitmap(np.asarray(sent, np.int64), feat_dim)


def _is_masks(node):
    return isinstance(node, masks_.SentMasks)


def spread(protos: HostProtos, mask_CD: np.ndarray | None) -> HostProtos:
    """Compressed prototypes [C, s] with their values in the places of the masks.

    TinyProto Definition 2: values are in the order of the dimensions. Prototypes that
    are not of this form stay as they are.
    """
    if mask_CD is None or (mask_CD.sum(1) != protos.mean.shape[-1]).any():
        return protos
    mean_CD = np.zeros(mask_CD.shape, protos.mean.dtype)
    mean_CD[mask_CD] = protos.mean.ravel()
    return HostProtos(mean_CD, protos.count)


def head_norms(cohorts, clients) -> np.ndarray | None:
    """Lengths of the class weights [K, C] of all clients, by id, without biases.

    None unless every client has one of HEADS as a matrix [D, C].
    """
    parts = []
    for stacked in clients:
        leaves = jax.tree_util.tree_leaves_with_path(stacked.params)
        by_path = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
        found = [by_path[name] for name in HEADS if name in by_path]
        if not found or np.ndim(found[0]) != 3:
            return None
        parts.append(np.linalg.norm(found[0], axis=1))
    return np.asarray(federation.by_id(cohorts, parts))


def _iterations(path: Path, name: str, at, values):
    """Iterations of the alignment in every round that was watched."""
    shown = {"": [plots.band(name, at, np.array([values]))]}
    plots.bands(path, shown, "round", "iterations of the alignment", whole=True)


def every_round(records, name: str) -> tuple[list[int], list[float]]:
    """Rounds, and what was seen in each; those without are left out."""
    at: list[int] = []
    values: list[float] = []
    for record in records:
        seen = record.get("every_round", {}).get(name, [])
        at += range(record["round"] - len(seen) + 1, record["round"] + 1)
        values += [np.nan if v is None else v for v in seen]
    return at, values


def note_of(learnt: HostProtos, feat_dim: int) -> str:
    """What has to be said of prototypes that are not in the space of features."""
    sent = learnt.mean.shape[-1]
    other = f"as sent: {sent} values each, features have {feat_dim}"
    return other if sent != feat_dim else ""


def rows_of(protos: HostProtos) -> np.ndarray:
    """Prototypes [..., C, D]; zeros where there is none."""
    return np.where(protos.count[..., None] > 0, protos.mean, 0)


def _global(learnt: HostProtos, feat_dim: int) -> dict[str, Picture]:
    """Angles, cosine similarity and values of global prototypes."""
    mean_CD, count_C, note = learnt.mean, learnt.count, note_of(learnt, feat_dim)
    title = ", ".join(filter(None, ["global prototypes", note]))
    rows_CD = rows_of(learnt)
    return {
        "angles": lambda to: plots.prototype_angles(to, mean_CD, count_C),
        "cosine": lambda to: plots.cosine_similarity(to, mean_CD, count_C, note),
        "global_prototypes": lambda to: plots.prototype_heatmap(
            to, rows_CD, title, None, None, "class"
        ),
    }


def _local(path: Path, local: HostProtos, mask_CD):
    """The local prototypes of the class that most clients hold."""
    c = int((local.count > 0).sum(0).argmax())
    plots.prototype_heatmap(
        path,
        rows_of(local)[:, c],
        held(local, c),
        mask_of(mask_CD, c, local.mean.shape[-1]),
    )


def held(local: HostProtos, c: int) -> str:
    """The title of the local prototypes of a class."""
    holders = int((local.count[:, c] > 0).sum())
    clients = len(local.count)
    return f"local prototypes of class {c}, held by {holders} of {clients} clients"


def mask_of(mask_CD: np.ndarray | None, c: int, dim: int) -> np.ndarray | None:
    """The mask of a class, if prototypes of `dim` values have one."""
    if mask_CD is None or mask_CD.shape[1] != dim:
        return None
    return mask_CD[c]


def _planes(trained: Trained, global_CD, local: HostProtos) -> dict[str, Picture]:
    """`global_CD` as clients are pulled to it: scaled."""
    mean, count = local.mean, local.count
    drawn = {"prototypes": lambda to: plots.prototypes_2d(to, global_CD, mean, count)}
    for i in (i for i in SPIRAL_CLIENTS if i < len(mean)):
        drawn[f"features_client{i}"] = partial(_features, trained, local, i)
    return drawn


def _features(trained, local, i, path):
    one = plane(trained, local, i)
    plots.features_2d(path, *one[1:], one.title)


def plane(trained: Trained, local: HostProtos, i: int) -> plots.Plane:
    """The test features and the prototypes of a client."""
    title = f"client {i}, test samples and local prototypes"
    feat_MD, y_M = features(*one_client(trained, i))
    return plots.Plane(title, feat_MD, y_M, local.mean[i], local.count[i])


def one_client(trained: Trained, i: int, part: str = "test"):
    """Network, state and data of a client.

    Args:
      i: its id.
      part: test or train.
    """
    exp, rows = trained.exp, getattr(trained.exp.partition, part)[i]
    shard = Shard(jnp.asarray(rows, jnp.int32), jnp.int32(len(rows)))
    for cohort, clients in zip(exp.cohorts, trained.clients, strict=True):
        if i in cohort.ids:
            k = cohort.ids.index(i)
            client = jax.tree.map(lambda a, k=k: a[k], clients)
            return cohort.net, client, Data(trained.examples, shard)
    raise ValueError(f"no client {i}")


def features(net, client, data: Data, at_M: np.ndarray | None = None):
    """Features [M, D] and labels [M] of examples of one client; of all by default.

    Where clients have RefProtoFL's adapter they are its z, which prototypes are of.
    """
    chosen_M = jnp.arange(int(data.shard.size)) if at_M is None else jnp.asarray(at_M)
    batch = batches.take(data, chosen_M, jnp.ones(len(chosen_M)))
    out = net.apply(client.params["net"], client.norm["net"], batch.x, False)
    adapter = client.params.get("adapter")
    feat = out.feat if adapter is None else refprotofl.embed(adapter, out.feat)
    return np.asarray(feat), np.asarray(batch.y)
