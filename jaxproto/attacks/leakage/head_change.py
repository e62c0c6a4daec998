"""Change of the last layer that a message reveals."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxproto import wire
from jaxproto.attacks.leakage import next_upload
from jaxproto.attacks.leakage.next_upload import CapturedUpload
from jaxproto.core.types import Array, Protos, Top, Tree


class HeadChange(NamedTuple):
    """Change of the last layer that a message reveals."""

    bias: np.ndarray  # [C] change; without a bias, sums over kernel columns
    sent: np.ndarray  # [C] number of sent entries per class
    chosen: bool  # sent entries are chosen by the training


def head_change(captured: CapturedUpload, up: Tree) -> HeadChange | None:
    """Returns the change of the classification layer; None if it is not sent."""
    params, idle = captured.stages.received.params, captured.stages.idle
    if (network := next_upload.network(captured, up)) is not None:
        up, idle = network, params
    after, sent = (_head(_unravel(up, params, mask)) for mask in (False, True))
    before = _head(_unravel(idle, params))
    if "kernel" not in after:
        return None
    parts = jax.tree.leaves(up, is_leaf=wire.is_message_node)
    chosen = any(isinstance(part, Top) for part in parts)
    change = {k: np.asarray(a, np.float64) - before[k] for k, a in after.items()}
    num_sent = np.sum(sent["kernel"], 0)
    total = np.sum(change["kernel"] * sent["kernel"], 0)
    if "bias" not in change:
        return HeadChange(total, num_sent, chosen)
    bias = np.where(sent["bias"], change["bias"], total / np.maximum(num_sent, 1))
    return HeadChange(bias, num_sent + sent["bias"], chosen)


def _head(tree: Tree) -> dict[str, Array]:
    """Returns kernel and bias of the classification layer, if the tree has them."""
    return {
        name: leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        for name in ("kernel", "bias")
        if jax.tree_util.keystr(path[-2:], simple=True, separator=".") == f"head.{name}"
    }


def push(captured: CapturedUpload, change: HeadChange, steps: int) -> np.ndarray:
    """Returns minus the mean gradient of the last bias [C] over steps of SGD."""
    next = captured.next
    rate = float(next.run.config.optimizer.learning_rate * next.local.factor)
    return change.bias / (rate * steps)


def _unravel(message: Tree, params: Tree, mask: bool = False) -> Tree:
    """Restores parameters from the vectors of chosen entries in a message.

    Args:
      mask: Returns 1 for sent values and 0 for others in place of values.
    """
    by_size = {len(ravel_pytree(tree)[0]): tree for tree in params.values()}

    def unravel_part(part):
        if isinstance(part, Top) and part.value.shape[0] in by_size:
            unravel = ravel_pytree(by_size[part.value.shape[0]])[1]
            values = part.sent.astype(np.float32) if mask else part.value
            return unravel(jnp.asarray(values))
        if isinstance(part, Protos | Top):
            return ()
        return np.ones(np.shape(part)) if mask else np.asarray(part, np.float64)

    return jax.tree.map(unravel_part, message, is_leaf=wire.is_message_node)
