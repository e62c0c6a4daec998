"""What crosses the network: scalars measured on the trees, and the papers' formulas.

The formulas are those of Table 7 of ProtoNorm and spec 5.1: scalars per round, both
directions, all clients, with K_i the classes of client i in training and test data.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from jaxproto.types import Array, Protos, Spec, Tree


def scalars(message: Tree) -> Array:
    """Scalars in one message. Prototypes count by the rows that are present."""

    def of(part):
        if isinstance(part, Protos):
            return jnp.sum(part.count > 0) * part.mean.shape[-1]
        return jnp.asarray(part.size)

    parts = jax.tree.leaves(message, is_leaf=lambda a: isinstance(a, Protos))
    return sum(map(of, parts), start=jnp.zeros((), jnp.int32))


def nominal_none(classes_K: Sequence[int], spec: Spec) -> int:
    """Nothing is sent."""
    del classes_K, spec
    return 0


def nominal_protos(classes_K: Sequence[int], spec: Spec) -> int:
    """sum_i (K_i + K) d, for every method that exchanges prototypes."""
    return sum(int(k) + spec.num_classes for k in classes_K) * spec.feat_dim


NOMINAL: dict[str, Callable[[Sequence[int], Spec], int]] = {
    "local": nominal_none,
    "fedproto": nominal_protos,
    "protonorm": nominal_protos,
}
