"""Prototype transforms: pairs of `init` and `update` that compose with `chain`.

A method applies them at three points: `on_upload` (client, before sending), `on_server`
(after aggregation, may keep state) and `on_client` (on the received broadcast).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.types import Array, Protos, Tree
from jaxproto.prototypes import kernels


class Transform(NamedTuple):
    """Map of prototypes with a state, as optax's gradient transformations."""

    init: Callable[[Protos], Tree]  # prototypes (shapes suffice) -> state
    update: Callable[[Protos, Tree], tuple[Protos, Tree]]


class Diagnostics(NamedTuple):
    """Scalars of the last round, as part of the server's or a transform's state.

    Records have them for every round. No result depends on them, and a checkpoint may
    lack them (`storage/checkpoint.py`).
    """

    watched: dict[str, Array]  # name -> scalar


def diagnostics_of(tree: Tree) -> dict[str, Array]:
    """Returns the diagnostics of all `Diagnostics` nodes of a tree."""
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Diagnostics))
    by_name: dict[str, Array] = {}
    for node in nodes:
        by_name |= node.watched if isinstance(node, Diagnostics) else {}
    return by_name


def stateless(f: Callable[[Protos], Protos]) -> Transform:
    """Turns a function into a transform without state."""
    return Transform(lambda protos: (), lambda protos, state: (f(protos), state))


def chain(*transforms: Transform) -> Transform:
    """Applies transforms from left to right; `chain()` is the identity."""

    def init(protos):
        states = []
        for t in transforms:
            states.append(t.init(protos))
            if len(states) < len(transforms):
                protos, _ = jax.eval_shape(t.update, protos, states[-1])
        return tuple(states)

    def update(protos, state):
        new_states = []
        for t, s in zip(transforms, state, strict=True):
            protos, s = t.update(protos, s)
            new_states.append(s)
        return protos, tuple(new_states)

    return Transform(init, update)


IDENTITY = chain()


def apply(transform: Transform, protos: Protos) -> Protos:
    """Applies a transform once, without keeping its state (client side)."""
    return transform.update(protos, transform.init(protos))[0]


def scale(factor: float | Array) -> Transform:
    """Multiplies every prototype (Prototype Upscaling, ProtoNorm Eq. 15)."""
    return stateless(lambda p: p.replace(mean=p.mean * factor))


def hide_count() -> Transform:
    """Replaces counts by presence: the server learns which classes a client has."""
    return stateless(lambda p: p.replace(count=jnp.sign(p.count)))


def show_count() -> Transform:
    """Discloses counts: the server learns the number of examples per class."""
    return stateless(lambda p: p.replace(disclosed=True))


def scale_by_count() -> Transform:
    """Multiplies every prototype by its count n_ij (TinyProto Eq. 10, PPA)."""
    return stateless(lambda p: p.replace(mean=p.mean * p.count[..., None]))


def compress(index_CS: Array) -> Transform:
    """Keeps the masked entries: [C, D] to [C, S] (TinyProto Eq. 8)."""
    return stateless(lambda p: p.replace(mean=kernels.compress(p.mean, index_CS)))


def expand(index_CS: Array, feat_dim: int) -> Transform:
    """Puts compressed entries back in their places, zeros elsewhere (Eq. 7)."""
    return stateless(
        lambda p: p.replace(mean=kernels.decompress(p.mean, index_CS, feat_dim))
    )


ALIGNMENT = ("iterations", "energy_before", "energy_after", "force")


def align(max_steps: int = 500) -> Transform:
    """Prototype Alignment on the unit sphere (ProtoNorm Algorithm 1).

    Its state, `Diagnostics`, has the iterations of the last round, the energy of the
    unit vectors before and after (Eq. 10), and the mean force after (Eq. 11).
    """

    def diagnostics(*values):
        names = (f"alignment_{name}" for name in ALIGNMENT)
        return Diagnostics(dict(zip(names, map(jnp.float32, values), strict=True)))

    def update(p, state):
        present_C = p.count > 0
        before = kernels.spacing(kernels.normalise_rows(p.mean), present_C)
        mean_CD, steps = kernels.align(p.mean, present_C, max_steps=max_steps)
        after = kernels.spacing(mean_CD, present_C)
        state = diagnostics(steps, before.energy, after.energy, after.force)
        return p.replace(mean=mean_CD), state

    return Transform(lambda protos: diagnostics(*[jnp.nan] * len(ALIGNMENT)), update)


THOMSON = align()  # as in the paper


def _carried(p: Protos, kept: Protos) -> tuple[Protos, Protos]:
    present_C = p.count > 0
    mean_CD = jnp.where(present_C[:, None], p.mean, kept.mean)
    kept = Protos(mean_CD, jnp.where(present_C, p.count, kept.count))
    return kept, kept


# Keeps the last prototype of a class that no client uploaded this round
CARRY_OVER = Transform(
    lambda protos: kernels.no_prototypes(*protos.mean.shape), _carried
)
