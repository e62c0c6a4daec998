"""Cutting of the end of a batch that is padding only.

Arrays have one length in a program, texts have not. A few lengths are compiled, and
each batch takes the shortest that holds it. A step of TextCNN on 32 texts of at most 51
of 200 words took 97 ms instead of 198 on two CPU cores, one of fastText 37 instead of
43.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.types import Array

SHORTEST = 32  # columns


def compiled_lengths(longest: int) -> list[int]:
    """Returns lengths that grow by half up to the longest."""
    found, n = [], SHORTEST
    while n < longest:
        found.append(n)
        n = n * 3 // 2
    return [*found, longest]


def trim_by_switch(f: Callable[[Array], Array], x: Array, used: Array) -> Array:
    """Applies `f` to x [B, L] without columns at its end, for CPU.

    Its gradient computes `f` once more: kept values would be those of every length.

    Args:
      f: does not see columns from `used` on.
      used: [] at most L.
    """
    there = compiled_lengths(x.shape[1])
    if len(there) == 1:
        return f(x)
    each = [jax.checkpoint(lambda x, n=n: f(x[:, :n])) for n in there]
    return lax.switch(jnp.searchsorted(jnp.asarray(there), used), each, x)


def no_trim(f: Callable[[Array], Array], x: Array, used: Array) -> Array:
    """Applies `f` to all of x, as `vmap` would compute every length."""
    return f(x)
