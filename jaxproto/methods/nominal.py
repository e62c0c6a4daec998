"""Formulas of the papers for the cost of a round, for `Method.nominal`.

Scalars of all clients, both directions (docs/decisions.md#cost; N Table 7 and others).
Each is a function of K_i, the classes that every client holds for training or test, and
of the sizes of a client's networks by name, among them `body` and `head` of `net`.
There are M clients, K classes and d features.
"""

from jaxproto.core.method import Nominal
from jaxproto.core.types import Spec

FEDKD_RATIO = 0.893212  # docs/decisions.md#fedkd-ratio; gives all five printed costs


def class_rows(spec: Spec, length: int) -> Nominal:
    """Returns sum_i (K_i + K) times the length of a sent class row."""
    classes = spec.num_classes
    return lambda classes_K, sizes: length * sum(int(k) + classes for k in classes_K)


def heads(spec: Spec) -> Nominal:
    """Returns 2 sum_i d K; the tables leave the bias of a head out."""
    size = spec.feat_dim * spec.num_classes
    return lambda classes_K, sizes: 2 * len(classes_K) * size


def networks(*names: str) -> Nominal:
    """Returns 2 sum_i |w_i|, of the networks or parts with these names."""
    return lambda classes_K, sizes: 2 * len(classes_K) * sum(sizes[n] for n in names)


def factorized(name: str) -> Nominal:
    """Returns 2 M |w| r of a network, with the r that FedKD's tables imply.

    It is no measurement: the size of a message depends on the parameters.
    """
    whole = networks(name)
    return lambda classes_K, sizes: round(FEDKD_RATIO * whole(classes_K, sizes))


def prototypes_and_headers(spec: Spec) -> Nominal:
    """Returns sum_i K_i d + M (d K + K): prototypes up, FedGH's header down."""
    classes, dim = spec

    def scalars(classes_K, parameters):
        return sum(map(int, classes_K)) * dim + len(classes_K) * (dim + 1) * classes

    return scalars


def adapters(spec: Spec, width: int, budget, anchors: bool) -> Nominal:
    """Returns the cost of RefProtoFL: adapter and anchors down; prototypes, budget up.

    It assumes that no class has public examples. Of a class that has, every client
    sends a prototype, whether it holds the class or not.
    """
    adapter = (spec.feat_dim + 1) * width + (width + 1) * spec.num_classes
    protos = class_rows(spec, width * anchors)

    def scalars(classes_K, parameters):
        per_client = adapter + max(1, round(budget * adapter)) + 1
        return len(classes_K) * per_client + protos(classes_K, parameters)

    return scalars
