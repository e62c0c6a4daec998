"""Prototypes and heads of a federation after a round, on the host."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxproto.core.method import Method
from jaxproto.core.types import Client, Protos, Tree
from jaxproto.experiment.build import Experiment
from jaxproto.prototypes.masks import SentMasks, bitmap
from jaxproto.round import gather

HEADS = (  # paths of the classifier: the head of an adapter, or of the network
    "['adapter']['head']['kernel']",
    "['net']['head']['kernel']",
)


@dataclasses.dataclass(frozen=True)
class HostProtos:
    """Prototypes on the host, in the form of `types.Protos`."""

    mean: np.ndarray  # [..., C, D]
    count: np.ndarray  # [..., C]


class LearntPrototypes(NamedTuple):
    """Prototypes after a round; None where there are none."""

    mask_CD: np.ndarray | None  # masks of CPS
    protos: HostProtos | None  # global ones, with expanded masks
    local: HostProtos | None  # [K, C, D] by client id
    client_view: HostProtos | None = None  # global ones as clients compare with them


def learnt_prototypes(
    exp: Experiment, server: Tree, clients: Sequence[Client]
) -> LearntPrototypes:
    """Returns the prototypes that the server broadcasts and clients remember."""
    mask_CD, down = masks(exp.method, exp.spec.feat_dim), exp.method.broadcast(server)
    memory = [find_prototypes(c.memory) for c in clients]
    local = on_host(gather.join_by_id([c.ids for c in exp.cohorts], memory))
    sent, viewed = on_host(down), on_host(exp.method.client_view(down))
    if sent and len(sent.count) > exp.spec.num_classes:  # several prototypes per class
        sent = viewed
    protos, viewed = (
        protos and expand_masked(protos, mask_CD) for protos in (sent, viewed)
    )
    return LearntPrototypes(mask_CD, protos, local, viewed)


def find_prototypes(tree: Tree) -> Protos | None:
    """Returns the first prototypes in a tree; None if there are none."""
    return _first(tree, Protos)


def _first(tree: Tree, kind: type) -> Any:
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kind))
    return next((node for node in leaves if isinstance(node, kind)), None)


def on_host(tree: Tree) -> HostProtos | None:
    """Returns the first prototypes in a tree as numpy arrays; None without any."""
    if (protos := find_prototypes(tree)) is None:
        return None
    return HostProtos(np.asarray(protos.mean), np.asarray(protos.count))


def masks(method: Method, feat_dim: int) -> np.ndarray | None:
    """Returns the CPS masks [C, D], bool; None if the method sends none at setup."""
    node = _first(method.setup, SentMasks)
    if node is None:
        return None
    if node.masks.dtype == bool:
        return np.asarray(node.masks)
    return bitmap(np.asarray(node.masks, np.int64), feat_dim)


def expand_masked(protos: HostProtos, mask_CD: np.ndarray | None) -> HostProtos:
    """Returns prototypes [C, D] with the values of compressed ones, [C, s].

    TinyProto Definition 2: values are in the order of the dimensions of the mask.
    Prototypes of another form are returned unchanged.
    """
    if mask_CD is None or (mask_CD.sum(1) != protos.mean.shape[-1]).any():
        return protos
    mean_CD = np.zeros(mask_CD.shape, protos.mean.dtype)
    mean_CD[mask_CD] = protos.mean.ravel()
    return HostProtos(mean_CD, protos.count)


def head_norms(cohorts, clients) -> np.ndarray | None:
    """Returns the norms [K, C] of clients' class weights by id, without biases.

    Returns None unless every client has one of HEADS as a matrix [D, C].
    """
    norms = []
    for stacked in clients:
        leaves = jax.tree_util.tree_leaves_with_path(stacked.params)
        by_path = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
        heads = [by_path[path] for path in HEADS if path in by_path]
        if not heads or np.ndim(heads[0]) != 3:  # [K, D, C]
            return None
        norms.append(np.linalg.norm(heads[0], axis=1))
    return np.asarray(gather.join_by_id([c.ids for c in cohorts], norms))


def note_of(learnt: HostProtos, feat_dim: int) -> str:
    """Returns a note on prototypes that are not in the space of features, or ""."""
    num_values = learnt.mean.shape[-1]
    note = f"as sent: {num_values} values each, features have {feat_dim}"
    return note if num_values != feat_dim else ""


def mean_or_zero(protos: HostProtos) -> np.ndarray:
    """Returns the means [..., C, D]; zeros where there is no prototype."""
    return np.where(protos.count[..., None] > 0, protos.mean, 0)
