"""Runs whose programs compile quickly, without pictures."""

import contextlib

import jax
import pytest

from jaxproto import plugins


def without_pictures(patch: pytest.MonkeyPatch):
    """Runs end without what optional layers add, such as pictures."""
    table = plugins.table
    patch.setattr(plugins, "table", lambda k: {} if k == "AT_END" else table(k))


@contextlib.contextmanager
def quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        without_pictures(patch)
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def quick_runs():
    """For all tests of a file that has it by `quick_runs = quick.quick_runs`."""
    with quickly():
        yield
