"""Check of a user's schedule of the learning rate, by shapes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxproto.config.optimizers import SCHEDULES
from jaxproto.core import tracing
from jaxproto.errors import UserError, describe_failure, place_of
from jaxproto.origin import is_external


def check_schedule(name: str, schedule: Callable):
    """Checks that a user's schedule returns a number for a traced round.

    Args:
      name: A key of `SCHEDULES`.
      schedule: Round -> factor of the learning rate, as the entry has built it.
    """
    factory = SCHEDULES[name]
    if not is_external(factory):
        return
    place = f"({place_of(factory)})"
    try:
        factor = tracing.shapes_of(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    except Exception as e:  # a user's function may raise anything
        why = describe_failure(e)
        raise UserError(f"schedule {name!r} fails: {why} {place}.") from e
    if getattr(factor, "shape", None) != ():
        raise UserError(
            f"schedule {name!r} returns {tracing.describe_tree(factor)}; it must "
            f"return a number, the factor of the learning rate {place}."
        )
