"""JAX's own settings on which the numbers of a run depend."""

import os
from typing import Any

import jax
from jax._src import xla_bridge

from jaxproto.core.types import Array
from jaxproto.errors import UserError

IMPLEMENTATION = "threefry2x32"  # of all keys, whatever JAX's default is
OTHER_DRAWS = "other random numbers would be drawn"
REQUIRED: dict[str, tuple[Any, str]] = {  # setting -> value, and why
    "jax_enable_x64": (False, "runs compute in 32 bits"),
    "jax_threefry_partitionable": (True, OTHER_DRAWS),
    "jax_high_dynamic_range_gumbel": (False, OTHER_DRAWS),
    "jax_random_seed_offset": (0, OTHER_DRAWS),
    "jax_disable_jit": (
        False,
        "runs are compiled, and --debug (jaxproto.debug) computes one round without",
    ),
}
MATMUL = "jax_default_matmul_precision"


def make_key(seed) -> Array:
    """Makes a key of random numbers, equal for every default generator of JAX."""
    return jax.random.key(seed, impl=IMPLEMENTATION)


_forks: set[int] = set()  # the id of this process, if it lacks the threads of JAX


def _after_fork():
    if xla_bridge.backends_are_initialized():
        _forks.add(os.getpid())


os.register_at_fork(after_in_child=_after_fork)


def check():
    """Raises UserError if programs would give other numbers, or would not end.

    A setting is a variable of the environment (`JAX_ENABLE_X64`), a value of
    `jax.config` or a context (`jax.enable_x64`).
    """
    if _forks:
        raise UserError(
            "this process is a fork of one that has used JAX, whose threads it lacks, "
            "so that it would wait forever; start it by spawn: "
            "multiprocessing.get_context('spawn')."
        )
    for name, (required, why) in REQUIRED.items():
        value = getattr(jax.config, name)
        if value != required:
            raise UserError(
                f"{name} is {value} (by {name.upper()}, jax.config.update or a "
                f"context), but {why}; set it to {required}."
            )


def recorded() -> dict[str, str]:
    """Returns the settings that a run may choose, and keeps when it is resumed."""
    return {MATMUL: getattr(jax.config, MATMUL) or "default"}
