"""Several prototypes of each class, [J, C, D], as rows of one `Protos` in messages.

Row j C + c is prototype j of class c (FPL, FedPCL).
"""

import jax
import jax.numpy as jnp

from jaxproto.core.types import Array, Protos
from jaxproto.prototypes import kernels


def in_rows(protos: Protos) -> Protos:
    """Returns several prototypes of each class, [J, C, D], as rows [J C, D]."""
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), protos)


def by_class(rows: Protos, num_classes: int) -> Protos:
    """Returns several prototypes of each class, [J, C, D], from rows [J C, D]."""
    return jax.tree.map(lambda a: a.reshape(-1, num_classes, *a.shape[1:]), rows)


def resized(protos: Protos, count: int) -> Protos:
    """Cuts the leading axis to `count` entries, or pads it with absent prototypes."""
    more = max(count - len(protos.count), 0)

    def one(a):
        return jnp.pad(a[:count], [(0, more), *[(0, 0)] * (a.ndim - 1)])

    return jax.tree.map(one, protos)


def nearest(feat_BD: Array, protos: Protos) -> Array:
    """Scores classes [B, C] by the nearest of their prototypes [J, C, D]."""
    score_BP = kernels.nearest(feat_BD, in_rows(protos))
    return jnp.max(score_BP.reshape(len(feat_BD), *protos.count.shape), 1)
