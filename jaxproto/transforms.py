"""Prototype transforms: pairs of `init` and `update` that compose with `chain`.

A method applies them at three named points: `on_upload` (client, before sending),
`on_server` (after aggregation, may keep state) and `on_client` (on what arrives).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from jaxproto import kernels
from jaxproto.types import Array, Protos, Tree


class Transform(NamedTuple):
    """A map of prototypes with a memory, as optax's gradient transformations are."""

    init: Callable[[], Tree]
    update: Callable[[Protos, Tree], tuple[Protos, Tree]]


def stateless(f: Callable[[Protos], Protos]) -> Transform:
    """Turns a plain function into a transform without memory."""
    return Transform(tuple, lambda protos, state: (f(protos), state))


def chain(*transforms: Transform) -> Transform:
    """Applies transforms from left to right; `chain()` is the identity."""

    def init():
        return tuple(t.init() for t in transforms)

    def update(protos, state):
        new = []
        for t, s in zip(transforms, state, strict=True):
            protos, s = t.update(protos, s)
            new.append(s)
        return protos, tuple(new)

    return Transform(init, update)


IDENTITY = chain()


def apply(transform: Transform, protos: Protos) -> Protos:
    """Applies a transform whose memory is not kept (client side)."""
    return transform.update(protos, transform.init())[0]


def scale(factor: float | Array) -> Transform:
    """Multiplies every prototype (Prototype Upscaling, ProtoNorm Eq. 15)."""
    return stateless(lambda p: p.replace(mean=p.mean * factor))


def hide_count() -> Transform:
    """Replaces counts by presence: the server learns which classes, not how many."""
    return stateless(lambda p: p.replace(count=jnp.sign(p.count)))


def show_count() -> Transform:
    """Counts become part of the message: the server learns how many examples."""
    return stateless(lambda p: p.replace(disclosed=True))


def by_count() -> Transform:
    """Multiplies every prototype by its count n_ij (TinyProto Eq. 10, PPA)."""
    return stateless(lambda p: p.replace(mean=p.mean * p.count[..., None]))


def compress(index_CS: Array) -> Transform:
    """Keeps the entries that masks name: [C, D] to [C, S] (TinyProto Eq. 8)."""
    return stateless(lambda p: p.replace(mean=kernels.compressed(p.mean, index_CS)))


def expand(index_CS: Array, feat_dim: int) -> Transform:
    """Puts compressed entries back in their places, zeros elsewhere (Eq. 7)."""
    return stateless(
        lambda p: p.replace(mean=kernels.sparse(p.mean, index_CS, feat_dim))
    )


def align(max_steps: int = 500) -> Transform:
    """Prototype Alignment on the unit sphere (ProtoNorm Algorithm 1)."""

    def f(p):
        return p.replace(
            mean=kernels.align(p.mean, p.count > 0, max_steps=max_steps)[0]
        )

    return stateless(f)


THOMSON = align()  # the paper's


def carry_over(num_classes: int, feat_dim: int) -> Transform:
    """Keeps the last prototype of a class that nobody uploaded this round (D4)."""

    def update(p, kept):
        here_C = p.count > 0
        mean_CD = jnp.where(here_C[:, None], p.mean, kept.mean)
        kept = Protos(mean_CD, jnp.where(here_C, p.count, kept.count))
        return kept, kept

    return Transform(lambda: kernels.empty(num_classes, feat_dim), update)
