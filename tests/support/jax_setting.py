"""A block with another value of one of JAX's settings."""

import contextlib

import jax


@contextlib.contextmanager
def setting(name, value):
    """A block with another value of a setting, as by its variable."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)
