"""Runs without pictures, and runs whose programs compile quickly."""

import contextlib
import functools

import jax
import pytest

from jaxproto import plugins

TABLE = plugins.table


def without_pictures(patch: pytest.MonkeyPatch):
    """Runs end without what optional layers add, such as pictures."""
    table = functools.cache(lambda k: {} if k == "AT_END" else TABLE(k))
    patch.setattr(plugins, "table", table)  # no function for `user_code.patched`


@contextlib.contextmanager
def with_pictures():
    """Runs end as those of users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "table", TABLE)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_pictures():
    """For all tests: they take longer than a round of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        without_pictures(patch)
        yield


@contextlib.contextmanager
def quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def quick_runs():
    """For all tests of a file that has it by `quick_runs = quick.quick_runs`."""
    with quickly():
        yield
