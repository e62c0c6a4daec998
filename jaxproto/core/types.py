"""Types of prototypes, clients, examples, networks and batches.

Axis key, used as a suffix of array names everywhere: K clients, M examples of one
client, N examples of all clients, S local steps, B batch, C classes, D features.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import numpy as np

Array = jax.Array
ArrayLike = jax.Array | np.ndarray  # on the device or on the host
Tree = Any


PADDING, UNKNOWN = 0, 1  # special tokens; the words of a vocabulary follow
SPECIAL = ("<pad>", "<unk>")  # their names


class Protos(flax.struct.PyTreeNode):
    """Class prototypes. A row with count 0 is absent: never sent, never used."""

    mean: Array  # [..., C, D]
    count: Array  # [..., C] examples (or clients) behind each row; 1 if not disclosed
    disclosed: bool = flax.struct.field(pytree_node=False, default=False)  # whether
    # messages have the counts, or only the presence of rows

    def __repr__(self) -> str:
        """Returns the shapes."""
        return f"Protos(mean={describe(self.mean)}, count={describe(self.count)})"


def describe(array: Any) -> str:
    """Returns type and shape of an array, such as "float32[10,64]"."""
    if not hasattr(array, "shape"):
        return repr(array)
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def kind_of(value: Any) -> str:
    """Returns type and shape of an array, the length of a tuple, or a type's name."""
    if value is None:
        return "None"
    if isinstance(value, jax.Array):
        return describe(value)
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if type(value) is tuple else kind


def is_key(leaf: Any) -> bool:
    """Returns whether a leaf of a tree is an array of PRNG keys."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


class Top(flax.struct.PyTreeNode):
    """Sent entries of a vector, or sent rows of a matrix."""

    value: Array  # [..., P] or [..., P, N]
    sent: Array  # [..., P] bool


class Statistics(flax.struct.PyTreeNode):
    """BatchNorm statistics in a message."""

    value: Tree


class PerClient(flax.struct.PyTreeNode):
    """Rows in a broadcast; every client receives one row: arrays or `Top`."""

    value: Tree  # [L, ...]
    row: ArrayLike | None = None  # [N] row of each client; None: its id


class Client(flax.struct.PyTreeNode):
    """State of a client between rounds; K of them share a leading axis."""

    params: Tree  # trained
    norm: Tree  # BatchNorm statistics; only `fedavg.averaged_statistics` sends them
    opt: Tree  # optimiser state
    memory: Tree  # state of the method (FedProto: the last local prototypes)
    count: Array  # [C] training examples per class
    id: Array  # [] index over all cohorts, the only source of per-client randomness
    steps: Array  # [] local steps of the last round this client took part in


class Examples(flax.struct.PyTreeNode):
    """All examples of the federation, once on the device.

    A run stores examples as rows [N, F], as a TPU would copy and pad [N, H, W, C].
    """

    x: Array  # [N, ...] uint8 images, float32 features or int32 tokens
    y: Array  # [N] int32
    public: Array | None = None  # [P] int32, rows that server and all clients know
    shape: tuple[int, ...] | None = flax.struct.field(pytree_node=False, default=None)
    # of one example; None: as in `x`


class Shard(flax.struct.PyTreeNode):
    """Rows of one client in `Examples`; K of them share a leading axis."""

    index: ArrayLike  # [M] int32, the first `size` are real, the rest padding
    size: ArrayLike  # [] int32


class Data(NamedTuple):
    """Data of one client: all examples, and its rows."""

    examples: Examples
    shard: Shard


class Batch(NamedTuple):
    """Examples of a local step; those of an evaluation have no key, row and step."""

    x: Array  # [B, ...] float32, normalised (tokens stay int32)
    y: Array  # [B] int32
    mask: Array  # [B] 1.0 for examples that count in losses and prototypes, else 0.0
    key: Array | None = None  # for dropout
    row: Array | None = None  # [B] positions among the client's examples
    step: Array | None = None  # [] local steps of the round before this one


class NetOutput(NamedTuple):
    """Output of a network for a batch."""

    feat: Array  # [B, D]
    logits: Array  # [B, C]
    norm: Tree  # BatchNorm statistics after the batch (unchanged when not training)


class Net(NamedTuple):
    """Network as pure functions, of Flax NNX, Linen or Equinox.

    `params` is a dict with the entries `body` and `head`; every leaf is float32.
    """

    init: Callable[[Array], tuple[Tree, Tree]]  # key -> params, norm
    apply: Callable[..., NetOutput]  # params, norm, x_B, train, key=None -> NetOutput
    head: Callable[[Tree, Array], Array]  # params["head"], feat_BD -> logits_BC


class LossAux(NamedTuple):
    """Auxiliary output of a loss: new statistics, and sums over the round."""

    norm: Tree
    sums: Tree = ()


class Spec(NamedTuple):
    """Shapes that all cohorts share."""

    num_classes: int
    feat_dim: int
