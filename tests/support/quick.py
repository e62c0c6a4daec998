"""Runs whose programs compile quickly, without pictures."""

import contextlib

import jax
import pytest

from jaxproto.lab import plots


@contextlib.contextmanager
def quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "available", lambda: False)
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def quick_runs():
    """For all tests of a file that has it by `quick_runs = quick.quick_runs`."""
    with quickly():
        yield
