"""One round of a federation (`one_round`), and the parts that it is made of.

A round is a pure function, which runs under `jit`, `scan` and `vmap` as it stands. A
run compiles its parts as programs of their own (`training/programs.py`). Every message
goes through the wire (`wire`), in both directions.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto import gather, kernels, participation, wire
from jaxproto.client import (
    LocalTask,
    LocalTraining,
    begin_local_training,
    finish_local_training,
    init_client,
    local_steps,
)
from jaxproto.execution import ClientStages, ExecutionMode, one_by_one
from jaxproto.method import Method, no_pre_upload
from jaxproto.participation import Participation, Sampler
from jaxproto.persistence import STATEFUL, Persistence
from jaxproto.types import Array, Client, Data, Examples, Net, Shard, Tree
from jaxproto.uploads import (
    PreReport,
    Report,
    Uploads,
    all_finite,
    join_uploads,
    mask_upload,
    reduce_uploads,
    upload_and_summand,
)
from jaxproto.wire import Wire


@dataclasses.dataclass(frozen=True)
class Cohort:
    """Clients that share an architecture."""

    name: str
    net: Net
    ids: tuple[int, ...]
    mode: ExecutionMode = dataclasses.field(default_factory=one_by_one)
    max_participants: int = 0  # clients that take part in a round; 0 is all
    persistence: Persistence = STATEFUL  # what its clients keep between rounds

    @property
    def num_rows(self) -> int:
        """Rows of a round's arrays."""
        return min(len(self.ids), self.max_participants) or len(self.ids)

    @property
    def sampled(self) -> bool:
        """Returns whether a part of its clients takes part in a round."""
        return self.num_rows < len(self.ids)


class Parts(NamedTuple):
    """What the floats of a configuration go into."""

    method: Method
    local: LocalTraining
    sampler: Sampler
    dropout: float | Array  # probability that a trained update is lost

    def collecting(self) -> "Parts":
        """Returns the parts with a server that gets every upload, not a sum of them."""
        return self._replace(method=self.method.collecting())


class Federation(NamedTuple):
    """What stays the same over all rounds, seeds and floats."""

    parts: Callable[[Mapping], Parts]  # dotted path -> value of every traced float
    cohorts: tuple[Cohort, ...]
    formats: Wire  # of values on the wire
    examples: Examples
    shards: tuple[Shard, ...]  # per cohort, training examples of each client
    counts: tuple[Array, ...]  # per cohort [K, C], training examples per class

    @property
    def num_clients(self) -> int:
        """Clients of all cohorts."""
        return sum(len(cohort.ids) for cohort in self.cohorts)


class Model(NamedTuple):
    """What a round changes."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]


class Broadcast(NamedTuple):
    """A message of the server to every participant."""

    message: Tree  # as clients have it, after the wire
    scalars: Array  # []
    bytes: Array  # [] on the wire


class RoundInputs(NamedTuple):
    """What every cohort works with in one round."""

    method: Method
    local: LocalTraining  # with the learning rate of this round
    formats: Wire  # of values on the wire
    participants: Participation  # by client id over all cohorts
    down: Tree  # the broadcast, as clients have it
    key: Array  # the round's; each client folds in its own id


SAMPLING, TRAINING, SERVER, FIRST = range(4)  # streams of a round's key


def init_model(federation: Federation, floats: Mapping, keys: Array) -> Model:
    """The model before the first round.

    Args:
      keys: two, of the clients and of the server.
    """
    now, (clients_key, server_key) = federation.parts(floats), keys
    server = now.method.init_server(federation.cohorts[0].net, server_key)
    start = partial(init_cohort, now.method, now.local)
    each = zip(federation.cohorts, federation.counts, strict=True)
    return Model(server, tuple(start(c, clients_key, count) for c, count in each))


def one_round(
    federation: Federation, floats: Mapping, key: Array, model: Model, r: Array
) -> tuple[Model, list[Report]]:
    """One round: sampler, broadcast, local training of every cohort, server's step.

    Args:
      key: of this round.
      r: number of the round, from 0.

    Returns:
      The model after the round, and the report of each cohort.
    """
    cohorts, now = federation.cohorts, federation.parts(floats)
    method, server, stream = now.method, model.server, partial(jax.random.fold_in, key)
    who = draw_participants(now, federation.num_clients, stream(SAMPLING), server, r)
    every = zip(cohorts, model.clients, federation.shards, strict=True)
    rows = [gather.gather(who, own, data, c.num_rows)[0] for c, own, data in every]

    def in_cohorts(step, server):
        exchange = RoundInputs(
            method=method,
            local=now.local.at_round(r),
            formats=federation.formats,
            participants=who,
            down=broadcast(method, server, federation.formats).message,
            key=stream(TRAINING),
        )
        cohort_rows = zip(cohorts, rows, strict=True)
        x = federation.examples
        return [step(exchange, c, own.clients, x, own.shards) for c, own in cohort_rows]

    if method.pre_upload is not no_pre_upload:  # the first of two exchanges
        first, _ = zip(*in_cohorts(pre_upload_cohort, server), strict=True)
        server = pre_aggregate_server(method, cohorts, stream(FIRST), server, first)
    trained, uploads, reports = zip(*in_cohorts(train_cohort, server), strict=True)
    server = update_server(method, cohorts, stream(SERVER), server, uploads)
    back = zip(model.clients, rows, trained, strict=True)
    clients = tuple(gather.scatter(old, [own.place], [new]) for old, own, new in back)
    return Model(server, clients), list(reports)


def draw_participants(
    parts: Parts, num_clients: int, key: Array, server: Tree, r: Array
) -> Participation:
    """Who trains in round `r`, and whose upload arrives."""
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
    """Stacked clients before their first round, as far as they are kept.

    Args:
      count: training examples per class [K, C].
      ids: [K]; None is all of the cohort.
    """
    ids = jnp.asarray(cohort.ids) if ids is None else ids
    new = partial(init_client, method, cohort.net, local, key)
    return cohort.persistence.init(new, ids, count)


def broadcast(method: Method, server: Tree, formats: Wire) -> Broadcast:
    """What the server sends: once a round, and once more between two exchanges."""
    message = method.broadcast(server)
    packed = lax.optimization_barrier(wire.pack(message, formats.down))
    return Broadcast(
        wire.unpack(packed), wire.scalars(message), wire.message_bytes(packed)
    )


def train_cohort(
    exchange: RoundInputs,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> tuple[Client, Uploads, Report]:
    """Trains the participants of a cohort for one round.

    A client that sits out keeps its state and takes no step; one that does not report
    keeps its progress and sends zeros.

    Args:
      clients: rows [R, ...]; unused ones have an id that no client has.
      shards: training examples of each row.
    """
    method, local, formats, who, down, key = exchange
    task = LocalTask(method, cohort.net, local, key, down, examples)
    trains_R, reports_R = gather.participation_flags(who, clients.id)

    def end(session, client, shard):
        after, up, loss = finish_local_training(task, session, client, shard)
        packed = wire.pack(up, formats.up)
        finite = all_finite((loss, wire.unpack(packed), after.params))
        size = wire.scalars(up), wire.message_bytes(packed)
        reports = gather.participation_flags(who, client.id).reports
        up, total = upload_and_summand(method.aggregation, reports, packed)
        return (cohort.persistence.keep(after), up, loss, finite, *size), total

    start = partial(begin_local_training, task)
    steps = partial(local_steps, task)
    run = cohort.mode.train(ClientStages(start, steps, end))
    begin = cohort.persistence.restore(method, cohort.net, clients)
    shards = shards.replace(size=jnp.where(trains_R, shards.size, 0))
    each, total = run(begin, shards)
    after, up, loss_R, finite_R, sent_R, bytes_R = each
    report = Report(
        id=clients.id,
        loss=loss_R,
        steps=after.steps * trains_R,
        finite=finite_R | ~trains_R,
        sent=sent_R * reports_R,
        bytes=bytes_R * reports_R,
    )
    after = gather.where_rows(trains_R, after, clients)
    return after, Uploads(clients.id, up, total), report


def pre_upload_cohort(
    exchange: RoundInputs,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> tuple[Uploads, PreReport]:
    """The first of two exchanges: what clients send before they train."""
    method, down = exchange.method, exchange.down
    trains_R = gather.participation_flags(exchange.participants, clients.id).trains
    begin = cohort.persistence.restore(method, cohort.net, clients)

    def one(client, shard, trains):
        client = client.replace(
            params=method.receive(client.params, down),
            norm=method.receive_stats(client.norm, down),
        )
        message = method.pre_upload(cohort.net, client, Data(examples, shard), down)
        packed = wire.pack(message, exchange.formats.up)
        size = wire.scalars(message), wire.message_bytes(packed)
        return mask_upload(trains, packed), *size

    up, sent_R, bytes_R = cohort.mode.each(one)(begin, shards, trains_R)
    report = PreReport(clients.id, sent_R * trains_R, bytes_R * trains_R)
    return Uploads(clients.id, up, ()), report


@kernels.float32_matmuls
def update_server(
    method: Method,
    cohorts: Sequence[Cohort],
    key: Array,
    server: Tree,
    uploads: Sequence[Uploads],
) -> Tree:
    """Aggregation and server step over the uploads of all cohorts, in id order."""
    num_rows = sum(c.num_rows for c in cohorts)
    reduced = reduce_uploads(method.aggregation, uploads, num_rows)
    return method.aggregation.finish(cohorts[0].net, server, reduced, key)


@kernels.float32_matmuls
def pre_aggregate_server(
    method: Method,
    cohorts: Sequence[Cohort],
    key: Array,
    server: Tree,
    uploads: Sequence[Uploads],
) -> Tree:
    """The server's state with what it makes of the first exchange."""
    messages = join_uploads(uploads, sum(c.num_rows for c in cohorts))
    return method.pre_aggregate(server, messages, key)
