"""What a message says of the last layer's training."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxproto import wire
from jaxproto.contrib.leakage.next_upload import CapturedUpload
from jaxproto.types import Protos, Top, Tree


class HeadChange(NamedTuple):
    """What a message says of the last layer's training."""

    bias: np.ndarray  # [C] change; of heads without one, sums over their columns
    sent: np.ndarray  # [C] entries of each class that were sent
    chosen: bool  # which entries are sent follows from the training


def head_change(made: CapturedUpload, up: Tree) -> HeadChange | None:
    """The change of the layer that ends in classes; None where it is not sent."""
    now = _unravelled(up, made.stages.received.params)
    idle = _unravelled(made.stages.idle, made.stages.received.params)
    chosen = any(isinstance(n, Top) for n in _parts(up))
    there = _unravelled(up, made.stages.received.params, which=True)
    change = jax.tree.map(lambda a, b: np.asarray(a, np.float64) - b, now, idle)
    found = {
        name: (value, there_)
        for (path, value), there_ in zip(
            jax.tree_util.tree_leaves_with_path(change),
            jax.tree.leaves(there),
            strict=True,
        )
        for name in ("kernel", "bias")
        if jax.tree_util.keystr(path).endswith(f"['head']['{name}']")
    }
    if "kernel" not in found:
        return None
    (kernel, kernel_sent), (bias, bias_sent) = (
        found["kernel"],
        found.get("bias", (None, None)),
    )
    number = np.sum(kernel_sent, 0)
    whole = np.sum(kernel * kernel_sent, 0)
    if bias is None:
        return HeadChange(whole, number, chosen)
    return HeadChange(
        np.where(bias_sent, bias, whole / np.maximum(number, 1)),
        number + bias_sent,
        chosen,
    )


def _parts(message: Tree) -> Sequence:
    return jax.tree.leaves(message, is_leaf=wire.is_message_node)


def _unravelled(message: Tree, params: Tree, which: bool = False) -> Tree:
    """A message with vectors of chosen entries as the parameters they are of.

    Args:
      which: in the place of values, whether they are sent.
    """
    forms = {len(ravel_pytree(tree)[0]): tree for tree in params.values()}

    def one(part):
        if isinstance(part, Top) and part.value.shape[0] in forms:
            unravel = ravel_pytree(forms[part.value.shape[0]])[1]
            values = part.sent.astype(np.float32) if which else part.value
            return unravel(jnp.asarray(values))
        if isinstance(part, Protos | Top):
            return ()
        return np.ones(np.shape(part)) if which else np.asarray(part, np.float64)

    return jax.tree.map(one, message, is_leaf=wire.is_message_node)
