"""Asynchronous rounds with a buffer, as a wrapper of any method.

After Nguyen et al.: Federated Learning with Buffered Asynchronous Aggregation
(FedBuff), AISTATS 2022. The server aggregates as soon as the uploads of `size` clients
have arrived. The other uploads are still on their way, and count in the round in which
they arrive, although their clients trained with an older broadcast. A client whose
upload was aggregated gets the new broadcast, and trains again.

Deviations: a client starts again after the aggregation that includes its upload, not
between two aggregations; a stale upload has its full weight, because methods weight
their uploads themselves; a lost upload takes no time, and its client is idle at once. A
client is trained when it gets the broadcast, and the server keeps its upload until it
arrives, so that evaluation sees the trained client at once. An upload is 8 bytes
longer: its seconds and the id of its client.
"""

import dataclasses
from collections.abc import Callable
from functools import partial

import flax.struct
import jax
import jax.numpy as jnp

from jaxproto import wire
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, Net, Tree
from jaxproto.prototypes.transforms import Diagnostics
from jaxproto.round import gather, participation
from jaxproto.round.participation import BoundedSampler, Participation
from jaxproto.round.simulated_time import ELAPSED, Timing, arrival

bitcast = jax.lax.bitcast_convert_type


class BufferedServer(flax.struct.PyTreeNode):
    """State of the server between two aggregations."""

    server: Tree  # of the method
    held: Tree  # [K, ...] uploads that have not been aggregated
    wait: Array  # [K] seconds until they arrive; inf: none, the client is idle
    begun: Array  # [K] round in which the clients of these uploads began
    r: Array  # [] number of the round, from 0
    now: Array  # [] seconds since the start of the run
    scalars: Diagnostics


def asynchronous(
    method: Method,
    size: int,
    timing: Timing,
    form: str,
    num_clients: int,
    upload_shape: Callable[[Net], Tree],
) -> Method:
    """Returns a method whose server aggregates the first `size` uploads that arrive.

    Args:
      method: Method with one exchange per round.
      timing: Seconds of the clients, without a deadline.
      form: Number format of uploads, one of `wire.FORMATS`.
      upload_shape: Network -> shapes of the upload of a client.
    """

    def init_server(net, key):
        held = jax.tree.map(
            lambda a: jnp.zeros((num_clients, *a.shape), a.dtype), upload_shape(net)
        )
        start = jnp.zeros(())
        return BufferedServer(
            server=method.init_server(net, key),
            held=held,
            wait=jnp.full(num_clients, jnp.inf),
            begun=jnp.zeros(num_clients, int),
            r=jnp.int32(0),
            now=start,
            scalars=diagnostics(start, start),
        )

    def adjust_sampler(sampler, state):
        sampler = method.adjust_sampler(sampler, state.server)

        def idle_clients(key, num_clients, r):
            idle_K = jnp.isinf(state.wait)
            who = sampler(key, num_clients, r)
            return Participation(who.trains & idle_K, who.reports & idle_K)

        return BoundedSampler(idle_clients, partial(participation.max_clients, sampler))

    def release(net, after, data, up, down, key):
        if method.release is not None:
            up = method.release(net, after, data, up, down, key)
        bytes_up = wire.message_bytes(wire.pack(up, form))
        seconds, _ = arrival(timing, after, down, bytes_up)
        return up, bitcast(seconds, jnp.int32), after.id  # not rounded by the wire

    def finish(net, state, sent, key):
        up, bits_R, id_R = sent  # zeros in rows without an upload
        seconds_R = bitcast(bits_R, jnp.float32)
        place_R = jnp.where(seconds_R > 0, id_R, num_clients)

        def put(old_K, new_R):
            return old_K.at[place_R].set(new_R, mode="drop")

        held = jax.tree.map(put, state.held, up)
        wait_K, begun_K = put(state.wait, seconds_R), put(state.begun, state.r)
        here_K = participation.top_k_mask(-wait_K, size) & jnp.isfinite(wait_K)
        passed = jnp.max(wait_K, where=here_K, initial=0.0)
        zeros = jax.tree.map(jnp.zeros_like, held)
        arrived = gather.where_rows(here_K, held, zeros)
        age = jnp.sum(state.r - begun_K, where=here_K) / jnp.maximum(jnp.sum(here_K), 1)
        now = state.now + passed
        return BufferedServer(
            server=method.aggregation(net, state.server, arrived, key),
            held=held,
            wait=jnp.where(here_K, jnp.inf, wait_K - passed),
            begun=begun_K,
            r=state.r + 1,
            now=now,
            scalars=diagnostics(now, age),
        )

    return dataclasses.replace(
        method,
        init_server=init_server,
        broadcast=lambda state: method.broadcast(state.server),
        adjust_sampler=adjust_sampler,
        release=release,
        update=Aggregation(finish, bound=method.aggregation.bound),
    )


def diagnostics(now: Array, age: Array) -> Diagnostics:
    """Returns the seconds of the run, and the mean age of uploads in rounds."""
    return Diagnostics({ELAPSED: now, "upload_age": age})
