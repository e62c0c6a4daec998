"""One round of a federation (`one_round`), and its parts.

A round is a pure function that runs under `jit`, `scan` and `vmap`. A run compiles its
parts as separate programs (`training/programs.py`). Every message passes the `wire`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto import wire
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, Client, Data, Examples, Shard, Tree
from jaxproto.prototypes import kernels
from jaxproto.round import gather, participation
from jaxproto.round.client import (
    LocalTask,
    LocalTraining,
    begin_local_training,
    changed_parts,
    finish_local_training,
    init_client,
    local_step,
    num_steps,
    receive,
)
from jaxproto.round.cohort import Cohort
from jaxproto.round.execution import ClientStages
from jaxproto.round.participation import Participation, Sampler
from jaxproto.round.simulated_time import Timing, arrival
from jaxproto.round.uploads import (
    PreReport,
    Report,
    Uploads,
    all_finite,
    mask_report,
    mask_upload,
    reduce_uploads,
    upload_and_summand,
)
from jaxproto.wire import Wire


class Parts(NamedTuple):
    """Parts of a federation that are built from the floats of a configuration."""

    method: Method
    local: LocalTraining
    sampler: Sampler
    dropout: float | Array  # probability that a trained update is lost
    timing: Timing | None = None  # simulated seconds, if any

    def collecting(self) -> "Parts":
        """Returns the parts with a server that collects uploads instead of a sum."""
        return self._replace(method=self.method.collecting())


class Setup(NamedTuple):
    """Parts of a federation that are equal for all rounds, seeds and floats."""

    parts: Callable[[Mapping], Parts]  # {dotted path: traced float} -> parts
    cohorts: tuple[Cohort, ...]
    formats: Wire  # of values on the wire
    examples: Examples
    shards: tuple[Shard, ...]  # per cohort, training examples of each client
    counts: tuple[Array, ...]  # per cohort [K, C], training examples per class


class Model(NamedTuple):
    """State of a federation between two rounds."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]


class Broadcast(NamedTuple):
    """Message of the server to every participant, with its size."""

    message: Tree  # after the wire, with the rows of all clients
    scalars: Array  # [] for any client, or [N] for each
    bytes: Array  # [] or [N], on the wire


class RoundInputs(NamedTuple):
    """Inputs that all cohorts share in one round."""

    method: Method
    local: LocalTraining  # with the learning rate of this round
    formats: Wire  # of values on the wire
    participants: Participation  # by client id over all cohorts
    down: Tree  # the broadcast, as clients have it
    key: Array  # of the round; each client folds in its id
    timing: Timing | None = None  # simulated seconds, if any


SAMPLING, TRAINING, SERVER, FIRST = range(4)  # streams of a round's key


def split_key(key: Array) -> Array:
    """Returns the keys of the clients, of the server and of the rounds [3]."""
    return jax.random.split(key, 3)


def round_key(rounds_key: Array, r: Array | int) -> Array:
    """Returns the key of round `r`, from 0, on which all its randomness depends."""
    return jax.random.fold_in(rounds_key, r)


def init_model(federation: Setup, floats: Mapping, keys: Array) -> Model:
    """Returns the model before the first round.

    Args:
      keys: Keys of the clients and of the server [2].
    """
    parts, (clients_key, server_key) = federation.parts(floats), keys
    server = parts.method.init_server(federation.cohorts[0].net, server_key)
    init = partial(init_cohort, parts.method, parts.local)
    pairs = zip(federation.cohorts, federation.counts, strict=True)
    return Model(server, tuple(init(c, clients_key, count) for c, count in pairs))


def one_round(
    federation: Setup, floats: Mapping, key: Array, model: Model, r: Array
) -> tuple[Model, list[Report]]:
    """Computes one round: sampler, broadcast, local training, server's step.

    Args:
      key: Key of this round.
      r: Number of the round, from 0.

    Returns:
      The model after the round, and the report of each cohort.
    """
    cohorts, parts = federation.cohorts, federation.parts(floats)
    method, server = parts.method, model.server
    stream = partial(jax.random.fold_in, key)
    num_clients = sum(len(cohort.ids) for cohort in cohorts)
    who = draw_participants(parts, num_clients, stream(SAMPLING), server, r)
    every = zip(cohorts, model.clients, federation.shards, strict=True)
    rows = [gather.gather(who, old, data, c.num_rows)[0] for c, old, data in every]

    def in_cohorts(step, server):
        down = broadcast(method, server, federation.formats).message
        local, timing = parts.local.at_round(r), parts.timing
        formats, key = federation.formats, stream(TRAINING)
        inputs = RoundInputs(method, local, formats, who, down, key, timing)
        cohort_rows, x = zip(cohorts, rows, strict=True), federation.examples
        return [step(inputs, c, row.clients, x, row.shards) for c, row in cohort_rows]

    update = partial(update_server, cohorts)
    if method.two_exchanges:
        first, _ = zip(*in_cohorts(pre_upload_cohort, server), strict=True)
        server = update(method.first_aggregation, stream(FIRST), server, first)
    trained, uploads, reports = zip(*in_cohorts(train_cohort, server), strict=True)
    server = update(method.aggregation, stream(SERVER), server, uploads)
    back = zip(model.clients, rows, trained, strict=True)
    clients = tuple(gather.scatter(old, [row.place], [new]) for old, row, new in back)
    return Model(server, clients), list(reports)


def draw_participants(
    parts: Parts, num_clients: int, key: Array, server: Tree, r: Array
) -> Participation:
    """Draws who trains in round `r`, and whose upload arrives."""
    sampler = parts.method.adjust_sampler(parts.sampler, server)
    sampler = participation.with_dropouts(sampler, parts.dropout)
    return sampler(key, num_clients, r)


def init_cohort(
    method: Method,
    local: LocalTraining,
    cohort: Cohort,
    key: Array,
    count: Array,
    ids: Array | None = None,
) -> Client:
    """Returns the state that clients keep before their first round.

    Args:
      count: Training examples per class [K, C].
      ids: Client ids [K]; None is all of the cohort.
    """
    ids = jnp.asarray(cohort.ids) if ids is None else ids
    new = partial(init_client, method, cohort.net, local, key)
    return cohort.kept_state.init(new, ids, count)


def broadcast(method: Method, server: Tree, formats: Wire) -> Broadcast:
    """Returns the message of the server, before training or between two exchanges."""
    message = method.broadcast(server)
    packed = lax.optimization_barrier(wire.pack(message, formats.down))
    return Broadcast(wire.unpack(packed), *wire.broadcast_sizes(message, packed))


def train_cohort(
    inputs: RoundInputs,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> tuple[Client, Uploads, Report]:
    """Trains the participants of a cohort for one round.

    A client that does not train keeps its state. One that trains without reporting
    keeps its progress and sends zeros.

    Args:
      clients: Rows [R, ...]; unused rows have an id that no client has.
      shards: Training examples of each row.
    """
    method, local, formats, who, down, key, timing = inputs
    task = LocalTask(method, cohort.net, local, key, down, examples)
    trains_R = gather.participation_flags(who, clients.id).trains

    def end(session, client, shard):
        after, up, loss = finish_local_training(task, session, client, shard)
        packed = wire.pack(up, formats.up)
        bound = method.aggregation.bound
        usable = all_finite(wire.unpack(packed), bound) & jnp.isfinite(loss)
        finite = all_finite(after.params)
        changed = changed_parts(session)
        scalars, size = wire.scalars(up), wire.message_bytes(packed)
        seconds, in_time = arrival(timing, after, down, size)
        trains, reports = gather.participation_flags(who, client.id)
        signs = usable, finite, changed
        report = Report(client.id, loss, after.steps, *signs, scalars, size, seconds)
        report = mask_report(trains, reports & in_time, report)
        up, total = upload_and_summand(method.aggregation, reports & in_time, packed)
        return (cohort.kept_state.keep(after), up, report), total

    start, step = partial(begin_local_training, task), partial(local_step, task)
    run = cohort.mode.train(ClientStages(start, num_steps, step, end))
    restored = cohort.kept_state.restore(method, cohort.net, clients)
    shards = shards.replace(size=jnp.where(trains_R, shards.size, 0))
    (after, up, report), total = run(restored, shards)
    after = gather.where_rows(trains_R, after, clients)
    return after, Uploads(clients.id, up, total), report


def pre_upload_cohort(
    inputs: RoundInputs,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> tuple[Uploads, PreReport]:
    """Computes the messages that clients send before they train."""
    method = inputs.method
    trains_R = gather.participation_flags(inputs.participants, clients.id).trains
    restored = cohort.kept_state.restore(method, cohort.net, clients)

    def one(client, shard, trains):
        client, down = receive(method, client, inputs.down)
        message = method.pre_upload(cohort.net, client, Data(examples, shard), down)
        packed = wire.pack(message, inputs.formats.up)
        size = wire.scalars(message), wire.message_bytes(packed)
        bound = method.aggregation.bound
        usable = all_finite(wire.unpack(packed), bound) | ~trains
        return mask_upload(trains, packed), *size, usable

    up, scalars_R, bytes_R, usable_R = cohort.mode.each(one)(restored, shards, trains_R)
    sizes = scalars_R * trains_R, bytes_R * trains_R
    report = PreReport(clients.id, *sizes, usable_R)
    return Uploads(clients.id, up, ()), report


@kernels.float32_matmuls
def update_server(
    cohorts: Sequence[Cohort],
    aggregation: Aggregation,
    key: Array,
    server: Tree,
    uploads: Sequence[Uploads],
) -> Tree:
    """Returns the server's state after the uploads of all cohorts, in id order."""
    reduced = reduce_uploads(aggregation, uploads, sum(c.num_rows for c in cohorts))
    return aggregation.finish(cohorts[0].net, server, reduced, key)
