"""Simulated seconds of clients: work and bytes over the speeds of their devices.

    seconds_i = steps_i * operations per step / speed_i + bytes_i / bandwidth_i

The bytes are those of the broadcast and of the upload. A round lasts as long as its
slowest participant, at most until the deadline.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxproto import wire
from jaxproto.core.hyperparameters import Real
from jaxproto.core.types import Array, ArrayLike, Client, Tree

ELAPSED = "simulated_seconds"  # name in records: seconds since the start of the run


class Timing(NamedTuple):
    """Seconds per unit of work of every client, by id, and the deadline of a round."""

    step_K: ArrayLike  # seconds per local step
    byte_K: ArrayLike  # seconds per byte, in either direction
    deadline: Real  # seconds after which an upload does not count; inf: none
    down: str  # number format of the broadcast


def arrival(
    timing: Timing | None, client: Client, down: Tree, bytes_up: Array
) -> tuple[Array, Array]:
    """Returns the seconds of a client in a round, and whether its upload is in time.

    Args:
      timing: None: no simulated time.
      client: Client after its local steps.
      down: Broadcast, after the wire.
      bytes_up: Bytes of its upload.

    Returns:
      Seconds until the upload or the deadline; whether the upload comes first.
    """
    if timing is None:
        return jnp.zeros(()), jnp.asarray(True)
    received = wire.for_client(down, client.id)
    num_bytes = bytes_up + wire.message_bytes(wire.pack(received, timing.down))
    step, byte = (jnp.asarray(a_K)[client.id] for a_K in (timing.step_K, timing.byte_K))
    seconds = client.steps * step + num_bytes * byte
    return jnp.minimum(seconds, timing.deadline), seconds <= timing.deadline


def steps_within(timing: Timing, seconds: Real, id: Array, steps: Array) -> Array:
    """Returns the local steps of a client that fit into `seconds`, at least one.

    Args:
      steps: Its steps without a limit.
    """
    fitting = jnp.floor(seconds / jnp.asarray(timing.step_K)[id])
    return jnp.minimum(steps, jnp.maximum(fitting, 1.0).astype(steps.dtype))
