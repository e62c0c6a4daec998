"""Cohorts and one round. The only file that knows the leading client axis.

Training (`train_cohort`) and evaluation (`evaluate_cohort`) are one program per
architecture each, the server's step (`update_server`) is one for all (`programs.py`);
so are the first exchange (`pre_upload_cohort`, `pre_aggregate_server`), if a method has
one. Every message goes through the wire (`wire`), in both directions.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto import batches, kernels, rows, wire
from jaxproto import client as clients_
from jaxproto.client import Asked, Local
from jaxproto.execution import ClientStages, ExecutionMode, one_by_one
from jaxproto.method import Aggregation, Method
from jaxproto.metrics import ACCURACY, Metric, named
from jaxproto.participation import Participation
from jaxproto.types import Array, Client, Data, Examples, Net, Shard, Tree
from jaxproto.wire import Wire


class Cohort(NamedTuple):
    """The clients that share an architecture."""

    name: str
    net: Net
    ids: tuple[int, ...]
    mode: ExecutionMode = one_by_one()  # how its clients run
    most: int = 0  # clients that take part in a round; 0 is all
    lanes: int = 1  # programs that train them side by side
    rules: tuple[str, ...] = ()  # that evaluate clients which keep nothing between
    # rounds; () is every rule, of clients that keep their networks
    tested: tuple[int, ...] = ()  # places in `ids` of those that are evaluated; () all
    metrics: tuple[Metric, ...] = named(ACCURACY)  # of every rule

    @property
    def room(self) -> int:
        """Rows of a round's arrays."""
        return min(len(self.ids), self.most) or len(self.ids)

    @property
    def keeps(self) -> bool:
        """Whether clients have something of their own between rounds."""
        return not self.rules


class Broadcast(NamedTuple):
    """A message of the server to every participant."""

    message: Tree  # as clients have it, after the wire
    scalars: Array  # []
    bytes: Array  # [] on the wire


class Exchange(NamedTuple):
    """What every cohort works with in one round."""

    method: Method
    local: Local  # with the learning rate of this round
    formats: Wire  # of values on the wire
    participants: Participation  # by client id over all cohorts
    down: Tree  # the broadcast, as clients have it
    key: Array  # the round's; each client folds in its own id


class Uploads(NamedTuple):
    """What the server has of a cohort."""

    id: Array  # [R] client ids, more than there are where a row is not used
    up: Tree  # [R, ...] packed, zeros where the client did not report; or () and
    total: Tree  # the sum over the clients, where the aggregation has a summand


class Moved(NamedTuple):
    """Clients of one lane after a round."""

    rows: rows.Rows
    clients: Client  # [R, ...]


class Report(NamedTuple):
    """What a cohort sends after a round, and what is watched; rows are clients."""

    uploads: Uploads | tuple[()]  # () where they stay on the device
    id: Array  # [R] client ids, more than there are where a row is not used
    loss: Array  # [R] mean over local steps, 0 for who took none
    steps: Array  # [R] local steps
    finite: Array  # [R] loss, upload and parameters are finite numbers
    sent: Array  # [R] scalars
    bytes: Array  # [R] of the upload on the wire

    @property
    def up(self) -> Tree:
        """Uploads [R, ...], packed."""
        return self.uploads.up if self.uploads else ()


class PreUpload(NamedTuple):
    """What a cohort sends before it trains; rows are clients."""

    uploads: Uploads | tuple[()]  # as of `Report`
    id: Array  # [R]
    sent: Array  # [R] scalars
    bytes: Array  # [R]

    @property
    def up(self) -> Tree:
        """Messages [R, ...], packed."""
        return self.uploads.up if self.uploads else ()


def all_finite(tree: Tree) -> Array:
    """Whether every floating-point leaf is finite."""
    ok = [jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(tree)]
    return jnp.all(jnp.asarray(ok)) if ok else jnp.asarray(True)


def init_cohort(
    method: Method,
    local: Local,
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
    if not cohort.keeps:
        return known_of(count, ids)
    one = partial(clients_.init, method, cohort.net, local, key)
    return lax.map(lambda a: one(*a), (ids, count))


def known_of(count: Array, ids: Array) -> Client:
    """Clients of which no more is known than who they are and what they have."""
    return Client((), (), (), (), count, ids, jnp.zeros_like(ids))


def fresh(method: Method, cohort: Cohort, clients: Client) -> Client:
    """Clients with zeros for what they do not keep, as nothing reads it."""
    if cohort.keeps:
        return clients
    init = partial(method.init_client, cohort.net)
    shapes = jax.eval_shape(init, jax.eval_shape(jax.random.key, 0))
    lead = clients.id.shape
    params, norm, memory = jax.tree.map(
        lambda a: jnp.zeros(lead + a.shape, a.dtype), shapes
    )
    return clients.replace(params=params, norm=norm, memory=memory)


def kept(cohort: Cohort, clients: Client) -> Client:
    """What of clients stays after a round."""
    if cohort.keeps:
        return clients
    return clients.replace(params=(), norm=(), opt=(), memory=())


def broadcast(method: Method, server: Tree, formats: Wire) -> Broadcast:
    """What the server sends: once a round, and once more between two exchanges."""
    message = method.broadcast(server)
    packed = lax.optimization_barrier(wire.pack(message, formats.down))
    return Broadcast(wire.unpack(packed), wire.scalars(message), wire.size(packed))


def train_cohort(
    exchange: Exchange,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> tuple[Client, Report]:
    """One round of one cohort.

    A client that sits out keeps its state and takes no step; one that does not report
    keeps its progress and sends zeros.
    """
    moved, report = train_lane(exchange, cohort, rows.WHOLE, clients, examples, shards)
    return put_back(clients, [moved]), report


def put_back(clients: Client, lanes: Sequence[Moved]) -> Client:
    """The clients of a cohort with those that were trained as they are now."""
    for here, after in lanes:
        clients = rows.put(clients, here, after)
    return clients


def train_lane(
    exchange: Exchange,
    cohort: Cohort,
    lane: rows.Lane,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> tuple[Moved, Report]:
    """The same of one lane, whose clients are not put back yet."""
    method, local, formats, participants, down, key = exchange
    here = rows.of(participants, clients.id, cohort.room, lane)
    own = rows.take(clients, here).replace(id=here.id)
    shards = rows.take(shards, here)
    task = clients_.Task(method, cohort.net, local, key, down, examples)

    def end(session, client, shard, reports):
        after, up, loss = clients_.end_session(task, session, client, shard)
        packed = wire.pack(up, formats.up)
        finite = all_finite((loss, wire.unpack(packed), after.params))
        size = wire.scalars(up), wire.size(packed)
        up, total = collected(method.aggregation, if_reports(reports, packed))
        return (kept(cohort, after), up, loss, finite, *size), total

    def start(client, shard, reports):
        del reports
        return clients_.start_session(task, client, shard)

    def steps(session, first, last, client, shard, reports):
        del reports
        return clients_.local_steps(task, session, first, last, client, shard)

    run = cohort.mode.train(ClientStages(start, steps, end))
    shards = shards.replace(size=jnp.where(here.trains, shards.size, 0))
    given = fresh(method, cohort, own), shards, here.reports
    (after, up, loss_R, finite_R, sent_R, bytes_R), total = run(*given)
    report = Report(
        uploads=Uploads(here.id, up, total),
        id=here.id,
        loss=loss_R,
        steps=after.steps * here.trains,
        finite=finite_R | ~here.trains,
        sent=sent_R * here.reports,
        bytes=bytes_R * here.reports,
    )
    return Moved(here, after), report


def if_reports(reports: Array, up: Tree) -> Tree:
    """The upload of a client that reports; zeros, "not there", of another."""
    return jax.tree.map(lambda a: jnp.where(reports, a, jnp.zeros_like(a)), up)


def collected(aggregation: Aggregation, packed: Tree) -> tuple[Tree, Tree]:
    """What the server gets of a client's packed upload: itself, and a summand."""
    if aggregation.summand is None:
        return packed, ()
    return (), aggregation.summand(wire.unpack(packed))


def reduced(
    aggregation: Aggregation, cohorts: Sequence[Cohort], uploads: Sequence[Uploads]
) -> Tree:
    """All uploads in the order of ids, or the sum of the summands."""
    if aggregation.summand is None:
        return received(cohorts, uploads)
    first, *others = (u.total for u in uploads)
    return jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), first, *others)


def pre_upload_cohort(
    exchange: Exchange,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> PreUpload:
    """The first of two exchanges: what clients send before they train."""
    method, down = exchange.method, exchange.down
    here = rows.of(exchange.participants, clients.id, cohort.room)
    own = rows.take(clients, here).replace(id=here.id)

    def one(client, shard, trains):
        client = client.replace(
            params=method.receive(client.params, down),
            norm=method.receive_stats(client.norm, down),
        )
        message = method.pre_upload(cohort.net, client, Data(examples, shard), down)
        packed = wire.pack(message, exchange.formats.up)
        size = wire.scalars(message), wire.size(packed)
        return if_reports(trains, packed), *size

    given = fresh(method, cohort, own), rows.take(shards, here)
    up, sent_R, bytes_R = cohort.mode.each(one)(*given, here.trains)
    uploads = Uploads(here.id, up, ())
    return PreUpload(uploads, here.id, sent_R * here.trains, bytes_R * here.trains)


def by_id(cohorts: Sequence[Cohort], parts: Sequence[Tree]) -> Tree:
    """Joins what cohorts have of all their clients, in the order of client ids."""
    return rows.in_order([i for c in cohorts for i in c.ids], parts)


def received(cohorts: Sequence[Cohort], uploads: Sequence[Uploads]) -> Tree:
    """What the server has of all cohorts' packed messages, in the order of ids."""
    ups = [u.up for u in uploads]
    if all(c.lanes == 1 and c.room == len(c.ids) for c in cohorts):
        stacked = by_id(cohorts, ups)
    else:
        most = sum(c.room for c in cohorts)  # lanes may have a row more
        stacked = rows.ordered([u.id for u in uploads], ups)
        stacked = jax.tree.map(lambda a: a[:most], stacked)
    return jax.vmap(wire.unpack)(stacked) if jax.tree.leaves(stacked) else stacked


@kernels.exact
def update_server(
    method: Method,
    cohorts: Sequence[Cohort],
    key: Array,
    server: Tree,
    uploads: Sequence[Uploads],
) -> Tree:
    """Aggregation and server step over the uploads of all cohorts, in id order."""
    all_of_them = reduced(method.aggregation, cohorts, uploads)
    return method.aggregation.finish(cohorts[0].net, server, all_of_them, key)


@kernels.exact
def pre_aggregate_server(
    method: Method,
    cohorts: Sequence[Cohort],
    key: Array,
    server: Tree,
    uploads: Sequence[Uploads],
) -> Tree:
    """The server's state with what it makes of the first exchange."""
    return method.pre_aggregate(server, received(cohorts, uploads), key)


def evaluate_cohort(
    method: Method,
    cohort: Cohort,
    down: Tree,
    clients: Client,
    examples: Examples,
    shards: Shard,
    lane: rows.Lane = rows.WHOLE,
) -> dict[str, Tree]:
    """Sums per rule, metric and client, or those of a lane: {rule: {metric: [K, ...]}}.

    Args:
      down: the broadcast, as clients have it.
      clients: all of the cohort.
      shards: of those that are evaluated.
    """
    clients, shards = asked(cohort, lane, clients, shards)

    def one(client, shard):
        data = Data(examples, shard)
        every = Asked(cohort.metrics)
        return clients_.score(method, cohort.net, down, client, data, every)

    return cohort.mode.each(one)(clients, shards)


def asked(cohort: Cohort, lane: rows.Lane, clients: Client, shards: Shard):
    """Those of the clients of a cohort that an evaluation asks, or those of a lane."""
    if cohort.tested and len(shards.size) < len(clients.id):
        clients = jax.tree.map(lambda a: a[jnp.asarray(cohort.tested)], clients)
    return rows.dealt((clients, shards), lane)


def evaluate_network(
    method: Method,
    cohort: Cohort,
    down: Tree,
    clients: Client,
    examples: Examples,
    test: Array | Shard,
    lane: rows.Lane = rows.WHOLE,
) -> dict[str, Tree]:
    """The rules that ask nothing of a client, of a network that serves all of them.

    Args:
      clients: that keep nothing.
      test: all examples, a batch a row [T, B]; or, where more than the accuracy is
        asked, the shards of clients, those of equal ones once.

    Returns:
      Which examples are right, {rule: {"accuracy": [T, B]}}; or the sums of each shard,
      as `evaluate_cohort`.
    """
    test, first = rows.dealt(test, lane), jax.tree.map(lambda a: a[:1], clients)
    client = jax.tree.map(lambda a: a[0], fresh(method, cohort, first))

    def one(shard):
        every, data = Asked(cohort.metrics, cohort.rules), Data(examples, shard)
        return clients_.score(method, cohort.net, down, client, data, every)

    def batch(index_B):
        shown = Data(examples, Shard(index_B, jnp.int32(len(index_B))))
        ones = jnp.ones(len(index_B))
        given = batches.take(shown, jnp.arange(len(index_B)), ones)
        hits = clients_.hits(method, cohort.net, down, client, given)
        return {rule: {ACCURACY: hits[rule]} for rule in cohort.rules}

    if isinstance(test, Shard):
        return cohort.mode.each(one)(test)
    return lax.map(batch, test)
