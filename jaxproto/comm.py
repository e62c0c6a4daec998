"""What crosses the network: scalars measured on the trees, and the papers' formulas.

The formulas are those of Table 7 of ProtoNorm and spec 5.1: scalars per round, both
directions, all clients, with K_i the classes of client i in training and test data.

    python -m jaxproto.comm --config=configs/protonorm.py:digits --all

prints both for a data set and a partition, without training (`costs.py`).
"""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp

from jaxproto.types import Array, Protos, Spec, Top, Tree
from jaxproto.wire import is_part


def scalars(message: Tree) -> Array:
    """Scalars in one message: prototypes by the rows present, `Top` by its entries."""

    def of(part):
        if isinstance(part, Protos):
            return jnp.sum(part.count > 0) * part.mean.shape[-1]
        if isinstance(part, Top):
            return jnp.sum(part.sent)
        return jnp.asarray(part.size)

    parts = jax.tree.leaves(message, is_leaf=is_part)
    return sum(map(of, parts), start=jnp.zeros((), jnp.int32))


Nominal = Callable[[Sequence[int], Spec, Mapping], int]  # classes_K, spec, fields of
# the method's configuration -> scalars


def nominal_none(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """Nothing is sent."""
    del classes_K, spec, fields
    return 0


def nominal_rows(classes_K: Sequence[int], spec: Spec, length: int) -> int:
    """sum_i (K_i + K) times the length of what is sent of a class."""
    return sum(int(k) + spec.num_classes for k in classes_K) * length


def nominal_protos(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """sum_i (K_i + K) d, for every method that exchanges whole prototypes."""
    del fields
    return nominal_rows(classes_K, spec, spec.feat_dim)


def nominal_sparse(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """sum_i (K_i + K) s, with s the coordinates that a mask really keeps (H9).

    Those of `masks.table`, without making the masks.
    """
    (classes, dim), s = spec, fields["s"] or -(-spec.feat_dim // 10)
    blocks = (dim // classes) * (classes * s // dim)
    kept = {"free": s, "block": blocks, "none": dim}[fields["masks"]]
    return nominal_rows(classes_K, spec, kept)


def nominal_feddistill(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """sum_i (K_i + K) K: FedDistill exchanges mean logits."""
    del fields
    return nominal_rows(classes_K, spec, spec.num_classes)


def nominal_lg(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """2 sum_i d K: LG-FedAvg exchanges heads; the tables leave the bias out."""
    del fields
    return 2 * len(classes_K) * spec.feat_dim * spec.num_classes


def nominal_refprotofl(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """The adapter and C anchors down; K_i prototypes, the budget and |D_i| up.

    As if no class had public examples: of one that has, every client sends a
    prototype, whether it holds the class or not.
    """
    width, classes = fields["adapter_dim"], spec.num_classes
    adapter = (spec.feat_dim + 1) * width + (width + 1) * classes
    each = adapter + max(1, round(fields["budget"] * adapter)) + 1
    protos = nominal_rows(classes_K, spec, width) * (fields["anchors"] != "none")
    return len(classes_K) * each + protos


NOMINAL: dict[str, Nominal] = {
    "local": nominal_none,
    "fedproto": nominal_protos,
    "protonorm": nominal_protos,
    "refprotofl": nominal_refprotofl,
    "fedtgp": nominal_protos,
    "tinyproto": nominal_sparse,
    "cps_ppa_cpkd": nominal_sparse,
}

if __name__ == "__main__":
    from jaxproto import costs

    costs.start()
