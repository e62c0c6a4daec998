"""What crosses the network: scalars measured on the trees, and the papers' formulas.

Formulas as in docs/decisions.md#cost (N Table 7 and others): scalars per round, both
directions, all clients, with K_i the classes of client i in training and test data.

    python -m jaxproto cost --config=configs/protonorm.py:digits --all

prints both for a data set and a partition, without training (`costs.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax

from jaxproto import masks
from jaxproto.method import Method
from jaxproto.types import Net, Spec


def parameters(method: Method, net: Net) -> dict[str, int]:
    """How many numbers each network of a client has, by its name in the parameters."""
    key = jax.eval_shape(jax.random.key, 0)
    params = jax.eval_shape(partial(method.init_client, net), key)[0]
    return {k: sum(a.size for a in jax.tree.leaves(v)) for k, v in params.items()}


Nominal = Callable[[Sequence[int], Spec, Mapping], int]  # classes_K, spec, fields of
# the method's configuration and, as "parameters", what `parameters` counts -> scalars


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
    """sum_i (K_i + K) s, with s the coordinates that a mask really keeps.

    Those of `masks.table`, without making the masks.
    """
    (classes, dim), s = spec, masks.kept(fields["s"], spec.feat_dim)
    blocks = (dim // classes) * (classes * s // dim)
    kept = {"block": blocks, "none": dim}.get(fields["masks"], s)
    return nominal_rows(classes_K, spec, kept)


def nominal_feddistill(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """sum_i (K_i + K) K: FedDistill exchanges mean logits."""
    del fields
    return nominal_rows(classes_K, spec, spec.num_classes)


def nominal_lg(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """2 sum_i d K: LG-FedAvg exchanges heads; the tables leave the bias out."""
    del fields
    return 2 * len(classes_K) * spec.feat_dim * spec.num_classes


def nominal_fml(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """2 M (theta_aux + phi_aux): FML exchanges auxiliary networks."""
    del spec
    return 2 * len(classes_K) * fields["parameters"]["aux"]


FEDKD_RATIO = 0.893212  # docs/decisions.md#fedkd-ratio; gives all five printed costs


def nominal_fedkd(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """2 M (theta_aux + phi_aux) r, with the r that the tables imply.

    No measurement stands behind it: what is sent depends on the parameters.
    """
    return round(FEDKD_RATIO * nominal_fml(classes_K, spec, fields))


def nominal_fedgh(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """sum_i K_i d + M (d K + K): FedGH exchanges prototypes for the header."""
    del fields
    classes, dim = spec
    return sum(map(int, classes_K)) * dim + len(classes_K) * (dim + 1) * classes


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


def nominal_network(classes_K: Sequence[int], spec: Spec, fields: Mapping) -> int:
    """2 sum_i |w_i|: whole networks in both directions, with any further outputs."""
    del spec
    count = fields["parameters"]
    return 2 * len(classes_K) * (count["net"] + count.get("virtual", 0))


NOMINAL: dict[str, Nominal] = {
    "local": nominal_none,
    "fedproto": nominal_protos,
    "protonorm": nominal_protos,
    "refprotofl": nominal_refprotofl,
    "fedtgp": nominal_protos,
    "tinyproto": nominal_sparse,
    "cps_ppa_cpkd": nominal_sparse,
    "fedavg": nominal_network,
    "fedprox": nominal_network,
    "fednova": nominal_network,
    "fednh": nominal_network,
    "feduv": nominal_network,
    "vhl": nominal_network,
    "fast": nominal_network,
    "lg_fedavg": nominal_lg,
    "fml": nominal_fml,
    "fedkd": nominal_fedkd,
    "feddistill": nominal_feddistill,
    "fedgh": nominal_fedgh,
}


def nominal(
    method: Method, net: Net, classes_K: Sequence[int], spec: Spec, fields: Mapping
) -> int | None:
    """Scalars of a round by the papers' formula; None for one's own method.

    Args:
      net: of any cohort.
      classes_K: classes in training and test data of each client.
      fields: of the method's configuration, its name among them.
    """
    formula = NOMINAL.get(fields["name"])
    if formula is None:
        return None
    counted = {**fields, "parameters": parameters(method, net)}
    return formula(classes_K, spec, counted)
