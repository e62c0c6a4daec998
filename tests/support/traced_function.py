"""A function whose traced program is kept in a folder, and damage to its file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxproto.training import program_cache, xla_cache

ARGS = (jnp.arange(3.0), jnp.ones(3))


def double(x, y):
    return {"sum": x + y, "twice": (2 * x, None)}


def cache(folder, f=double, args=ARGS, cache_key="r", name="n"):
    """The function as `wrap` gives it, and how often it was traced for that."""
    traces = []

    def counted(*values):
        traces.append(1)
        return f(*values)

    made = program_cache.load_or_trace(folder, cache_key, name, counted, args)
    return made, len(traces)


def flipped(at):
    """One bit of the byte at this share of the file."""

    def damage(content):
        k = int(at * (len(content) - 1))
        return content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :]

    return damage


def assert_doubles(f):
    got, want = jax.jit(f)(*ARGS), double(*ARGS)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(np.testing.assert_array_equal, got, want)


@pytest.fixture
def said(monkeypatch):
    """What is said, each sentence once."""
    found = []
    monkeypatch.setattr(
        xla_cache.logging, "warning", lambda _, text: found.append(text)
    )
    return found
