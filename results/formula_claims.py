"""Claims that formulas and kernels decide: costs, and the alignment of ProtoNorm."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import config, models
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Spec
from jaxproto.data.partitions import pfllib
from jaxproto.experiment import method_builder
from jaxproto.prototypes import kernels
from jaxproto.summary import nominal_cost
from results.claim_pairs import Claim

PARTITIONS = (1, 0, 2)  # seeds of Dirichlet 0.1
CLIENTS = 20
NETWORKS = {"ResNet-18": "resnet18"}  # printed name -> network that is counted
COUNTED = "cnn4_d"  # network that is counted for all other names
PER_CLASS = {  # data set -> classes, examples of each class, shape of an input
    "cifar10": (10, 6_000, (32, 32, 3)),
    "cifar100": (100, 600, (32, 32, 3)),
    "tiny_imagenet": (200, 550, (32, 32, 3)),  # the inputs that printed costs imply
    "ag_news": (4, 31_900, (32, 32, 3)),  # no claim on it counts a network
}
TOLERANCE = 0.05  # of printed costs and ratios, beside their last digit


@cache
def classes_held(data: str, seed: int) -> tuple[int, ...]:
    """Returns K_i of every client."""
    classes, each, _ = PER_CLASS[data]
    y_N, scheme = np.repeat(np.arange(classes), each), pfllib.pfllib_dirichlet(0.1)
    client_rows = scheme.assign(y_N, classes, CLIENTS, scheme.make_rng(seed))
    return tuple(len(np.unique(y_N[rows])) for rows in client_rows)


@cache
def scalars(
    name: str, fields: tuple[tuple[str, str], ...], data: str, networks: str
) -> list[int]:
    """Returns the scalars of a round by the papers' formulas, for each partition.

    Args:
      name: method.
      fields: fields of the method, or with a dot of the configuration.
      networks: printed name of all clients' network, where a formula counts it.
    """
    classes, each, shape = PER_CLASS[data]
    c = config.experiment(name, data)
    defaults = config.flatten(c)
    wanted = {k if "." in k else f"method.{k}": v for k, v in fields}
    config.apply_fields(c, {k: type(defaults[k])(v) for k, v in wanted.items()})
    spec = Spec(classes, c.model.feat_dim)
    network = partial(
        models.build,
        input_shape=shape,
        num_classes=spec.num_classes,
        feat_dim=spec.feat_dim,
    )
    method = method_builder.build_method(c.method, spec, classes * each, c, network)
    if method.nominal is None:
        raise ValueError(f"{name} has no formula of its cost")
    parameters = nominal_cost.parameters(
        method, network(NETWORKS.get(networks, COUNTED))
    )
    held = (classes_held(data, seed) for seed in PARTITIONS)
    return [method.nominal(classes_K, parameters) for classes_K in held]


def closeness(found: float, printed: str) -> bool:
    """Returns whether a number is the printed one, within `TOLERANCE` or its digits."""
    if printed.startswith("<"):
        return found < float(printed[1:])
    digit = 10.0 ** -len(printed.partition(".")[2])
    return abs(found - float(printed)) <= max(TOLERANCE * float(printed), digit / 2)


@cache
def alignment(classes: int, dim: int, seed: int) -> dict[str, float]:
    """Aligns random rectified prototypes, and measures their distances.

    Returns:
      `before` and `after`, mean distance; `smallest`, smallest distance after, relative
      to that of a regular simplex, the optimum; `steps`.
    """
    rows_CD = jax.nn.relu(jax.random.normal(make_key(seed), (classes, dim)))
    present_C = jnp.ones(classes, bool)
    unit_CD = rows_CD / jnp.linalg.norm(rows_CD, axis=1, keepdims=True)
    point_CD, steps = kernels.align(rows_CD, present_C)
    after = kernels.spacing(point_CD, present_C)
    simplex = math.sqrt(2 * classes / (classes - 1))
    return {
        "before": float(kernels.spacing(unit_CD, present_C).mean_distance),
        "after": float(after.mean_distance),
        "smallest": float(after.smallest_distance) / simplex,
        "steps": float(steps),
    }


NEAR = 0.95  # of the optimal smallest distance
Check = Callable[[Mapping], bool]
ALIGNED: dict[str, tuple[Check, str]] = {  # kind -> check, effect
    "nearer": (
        lambda a: abs(a["after"] - math.sqrt(2)) < abs(a["before"] - math.sqrt(2)),
        "mean distance {before:.2f} to {after:.2f}",
    ),
    "optimal": (lambda a: a["smallest"] >= NEAR, "{smallest:.2f} of the optimum"),
    "short of optimal": (
        lambda a: a["smallest"] < NEAR,
        "{smallest:.2f} of the optimum",
    ),
}


def aligned(kind: str, classes: int, dim: int) -> tuple[list[bool], str]:
    """Returns whether each seed's alignment is as claimed, and a text on the first."""
    check, text = ALIGNED[kind]
    found = [alignment(classes, dim, seed) for seed in (0, 1, 2)]
    return [check(a) for a in found], text.format(**found[0])


def costs(claim: Claim) -> tuple[list[bool], str]:
    """Returns whether each partition has the printed costs, and those of the first.

    A ratio is a cost of `claim.right` over that of `claim.left`, at least as printed.
    """
    names = claim.data.split("|")
    printed = dict(zip(names, claim.printed.split("|"), strict=True))
    found: dict[str, list[float]] = {}
    sides = [(side.method, tuple(side.fields.items())) for side in claim.sides]
    for data in names:
        left, *right = (np.array(scalars(*s, data, claim.networks)) for s in sides)
        found[data] = [*(left / 1e6 if claim.kind == "cost" else right[0] / left)]
    if claim.kind == "cost":
        pairs = [[closeness(x, printed[d]) for x in row] for d, row in found.items()]
    else:
        least = {d: (1 - TOLERANCE * (x != "1")) * float(x) for d, x in printed.items()}
        pairs = [[x > least[d] for x in row] for d, row in found.items()]
    effect = ", ".join(f"{d} {row[0]:.3g}" for d, row in found.items())
    unit = "M" if claim.kind == "cost" else "times"
    return [all(row) for row in zip(*pairs, strict=True)], f"{effect} {unit}"
