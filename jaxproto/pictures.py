"""Every picture of a finished run, into `plots/`."""

from pathlib import Path

import jax
import numpy as np

from jaxproto import batches, federation, metrics, plots
from jaxproto import masks as masks_
from jaxproto.method import Method
from jaxproto.types import Data, Protos, Tree

SPIRAL_CLIENTS = (2, 5)  # N Figure 2 (e), (f)
HEADS = (  # what classifies: RefProtoFL's adapter, if there is one, else the network
    "['adapter']['head']['kernel']",
    "['net']['head']['kernel']",
)


def draw(setup, state):
    """Draws what the run has.

    Partition, and accuracy over rounds and against bytes, always; angles and cosine
    similarity where the server broadcasts prototypes; a class's local prototypes where
    clients keep theirs; norms of class weights where clients have a linear head; planes
    for two-dimensional features. Without matplotlib it says how to get it and draws
    nothing.
    """
    if not plots.available():
        setup.console.print(f"no pictures: {plots.HINT}")
        return
    exp, folder = setup.work.exp, setup.path / "plots"
    folder.mkdir(exist_ok=True)
    records = metrics.read(setup.path / "metrics.jsonl")
    plots.partition_heatmap(folder / "partition.png", exp.counts.train)
    if records:
        plots.accuracy_over_rounds(folder / "accuracy.png", records)
        plots.accuracy_against_bytes(folder / "bytes.png", {setup.path.name: records})
    mask_CD = masks(exp.method, exp.spec.feat_dim)
    learnt = protos_in(exp.method.broadcast(state.server))
    memory = [protos_in(c.memory) for c in state.clients]
    local = protos_in(federation.by_id(exp.cohorts, memory))
    if learnt is not None:
        learnt = spread(learnt, mask_CD)
        _global(learnt, exp.spec.feat_dim, folder)
    if local is not None and np.any(local.count > 0):
        _local(local, mask_CD, folder)
    if (norm_KC := head_norms(exp.cohorts, state.clients)) is not None:
        plots.head_norms(folder / "heads.png", norm_KC, exp.counts.train)
    if learnt is not None and local is not None and exp.spec.feat_dim == 2:
        upscale = setup.config.method.get("upscale", 1.0)
        _planes(setup, state, learnt.mean * upscale, local, folder)


def protos_in(tree: Tree) -> Protos | None:
    """The first prototypes in a tree, as numpy arrays; None if there are none."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Protos))
    found = next((node for node in leaves if isinstance(node, Protos)), None)
    return None if found is None else jax.tree.map(np.asarray, found)


def masks(method: Method, feat_dim: int) -> np.ndarray | None:
    """The CPS masks [C, D], bool, if the method sends some before the first round."""
    leaves = jax.tree.leaves(method.setup, is_leaf=_is_masks)
    sent = next((node.masks for node in leaves if _is_masks(node)), None)
    if sent is None or sent.dtype == bool:
        return sent if sent is None else np.asarray(sent)
    return masks_.bitmap(np.asarray(sent, np.int64), feat_dim)


def _is_masks(node):
    return isinstance(node, masks_.Sent)


def spread(protos: Protos, mask_CD: np.ndarray | None) -> Protos:
    """Compressed prototypes [C, s] with their values in the places of the masks.

    TinyProto Definition 2: values are in the order of the dimensions. Prototypes that
    are not of this form stay as they are.
    """
    if mask_CD is None or (mask_CD.sum(1) != protos.mean.shape[-1]).any():
        return protos
    mean_CD = np.zeros(mask_CD.shape, protos.mean.dtype)
    mean_CD[mask_CD] = protos.mean.ravel()
    return protos.replace(mean=mean_CD)


def head_norms(cohorts, clients) -> np.ndarray | None:
    """Lengths of the class weights [K, C] of all clients, by id, without biases.

    None unless every client has one of HEADS as a matrix [D, C].
    """
    parts = []
    for stacked in clients:
        leaves = jax.tree_util.tree_leaves_with_path(stacked.params)
        by_path = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
        kernel_KDC = next((by_path[name] for name in HEADS if name in by_path), None)
        if np.ndim(kernel_KDC) != 3:
            return None
        parts.append(np.linalg.norm(kernel_KDC, axis=1))
    return np.asarray(federation.by_id(cohorts, parts))


def _global(learnt: Protos, feat_dim: int, folder: Path):
    """Angles and cosine similarity of global prototypes."""
    sent = learnt.mean.shape[-1]
    other = f"as sent: {sent} values each, features have {feat_dim}"
    note = other if sent != feat_dim else ""
    plots.prototype_angles(folder / "angles.png", learnt.mean, learnt.count)
    plots.cosine_similarity(folder / "cosine.png", learnt.mean, learnt.count, note)


def _local(local: Protos, mask_CD, folder: Path):
    """The local prototypes of the class that most clients hold."""
    holders_C = (local.count > 0).sum(0)
    c = int(holders_C.argmax())
    title = f"local prototypes of class {c}, held by {holders_C[c]} of "
    title += f"{len(local.count)} clients"
    there_K = local.count[:, c] > 0
    proto_KD = np.where(there_K[:, None], local.mean[:, c], 0)
    mask_D = None
    if mask_CD is not None and proto_KD.shape[1] == mask_CD.shape[1]:
        mask_D = mask_CD[c]
    plots.prototype_heatmap(folder / "local_prototypes.png", proto_KD, title, mask_D)


def _planes(setup, state, global_CD, local: Protos, folder: Path):
    """`global_CD` as clients are pulled to it: scaled."""
    exp = setup.work.exp
    plots.prototypes_2d(folder / "prototypes.png", global_CD, local.mean, local.count)
    for cohort, clients, shards in zip(
        exp.cohorts, state.clients, exp.test, strict=True
    ):
        for k, i in enumerate(cohort.ids):
            if i in SPIRAL_CLIENTS:
                client, shard = jax.tree.map(lambda a, k=k: a[k], (clients, shards))
                data = Data(setup.work.pool, shard)
                feat_MD, y_M = features(cohort.net, client, data)
                plots.features_2d(
                    folder / f"features_client{i}.png",
                    feat_MD,
                    y_M,
                    local.mean[i],
                    local.count[i],
                    f"client {i}, test samples and local prototypes",
                )


def features(net, client, data: Data):
    """Features [M, D] and labels [M] of all examples of one client."""
    size = int(data.shard.size)
    batch = batches.take(data, np.arange(size), np.ones(size))
    out = net.apply(client.params["net"], client.norm["net"], batch.x, False)
    return np.asarray(out.feat), np.asarray(batch.y)
