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

from jaxproto import client as clients_
from jaxproto import kernels, wire
from jaxproto.client import Local
from jaxproto.errors import UserError
from jaxproto.execution import ClientStages, ExecutionMode, one_by_one
from jaxproto.method import Method
from jaxproto.participation import Participation
from jaxproto.types import Array, Client, Data, Examples, Net, Shard, Spec, Tree
from jaxproto.wire import Wire


class Cohort(NamedTuple):
    """The clients that share an architecture."""

    name: str
    net: Net
    ids: tuple[int, ...]
    mode: ExecutionMode = one_by_one()  # how its clients run


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


class Report(NamedTuple):
    """What a cohort sends after a round, and what is watched; rows are clients."""

    up: Tree  # [K, ...] packed, zeros where the client did not report
    loss: Array  # [K] mean over local steps, 0 for who took none
    steps: Array  # [K] local steps
    finite: Array  # [K] loss, upload and parameters are finite numbers
    sent: Array  # [K] scalars
    bytes: Array  # [K] of the upload on the wire


class PreUpload(NamedTuple):
    """What a cohort sends before it trains; rows are clients."""

    up: Tree  # [K, ...] packed, zeros where the client takes no part
    sent: Array  # [K] scalars
    bytes: Array  # [K]


def select(on_K: Array, new: Tree, old: Tree) -> Tree:
    """Rows of `new` where `on_K`, else of `old`."""

    def choose(a, b):
        return jnp.where(on_K.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def all_finite(tree: Tree) -> Array:
    """Whether every floating-point leaf is finite."""
    ok = [jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(tree)]
    return jnp.all(jnp.asarray(ok)) if ok else jnp.asarray(True)


def init_cohort(method: Method, local: Local, cohort: Cohort, key: Array, count: Array):
    """Stacked clients; `count` holds the training examples per class [K, C]."""
    one = partial(clients_.init, method, cohort.net, local, key)
    return lax.map(lambda a: one(*a), (jnp.asarray(cohort.ids), count))


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
    method, local, formats, participants, down, key = exchange
    trains_K = participants.trains[clients.id]
    reports_K = participants.reports[clients.id]
    task = clients_.Task(method, cohort.net, local, key, down, examples)

    def end(session, client, shard):
        after, up, loss = clients_.end_session(task, session, client, shard)
        packed = wire.pack(up, formats.up)
        finite = all_finite((loss, wire.unpack(packed), after.params))
        return after, packed, loss, finite, wire.scalars(up), wire.size(packed)

    start = partial(clients_.start_session, task)
    run = cohort.mode.train(
        ClientStages(start, partial(clients_.local_steps, task), end)
    )
    shards = shards.replace(size=jnp.where(trains_K, shards.size, 0))
    after, up, loss_K, finite_K, sent_K, bytes_K = run(clients, shards)
    report = Report(
        up=silence(reports_K, up),
        loss=loss_K,
        steps=after.steps * trains_K,
        finite=finite_K | ~trains_K,
        sent=sent_K * reports_K,
        bytes=bytes_K * reports_K,
    )
    return select(trains_K, after, clients), report


def silence(on_K: Array, up: Tree) -> Tree:
    """Uploads of the clients that report; zeros, "not there", for the others."""
    return select(on_K, up, jax.tree.map(jnp.zeros_like, up))


def pre_upload_cohort(
    exchange: Exchange,
    cohort: Cohort,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> PreUpload:
    """The first of two exchanges: what clients send before they train."""
    method, down = exchange.method, exchange.down

    def one(client, shard):
        client = client.replace(
            params=method.receive(client.params, down),
            norm=method.receive_stats(client.norm, down),
        )
        message = method.pre_upload(cohort.net, client, Data(examples, shard), down)
        packed = wire.pack(message, exchange.formats.up)
        return packed, wire.scalars(message), wire.size(packed)

    up, sent_K, bytes_K = cohort.mode.each(one)(clients, shards)
    trains_K = exchange.participants.trains[clients.id]
    return PreUpload(silence(trains_K, up), sent_K * trains_K, bytes_K * trains_K)


def by_id(cohorts: Sequence[Cohort], parts: Sequence[Tree]) -> Tree:
    """Joins what cohorts return into one tree with rows in the order of client ids."""
    ids = [i for c in cohorts for i in c.ids]
    order = sorted(range(len(ids)), key=ids.__getitem__)

    def join(*rows):
        all_K = jnp.concatenate(rows)
        in_order = order == list(range(len(ids)))
        return all_K if in_order else all_K[jnp.asarray(order)]

    return jax.tree.map(join, *parts)


def received(cohorts, ups) -> Tree:
    """What the server has of all cohorts' packed messages, in id order."""
    stacked = by_id(cohorts, ups)
    return jax.vmap(wire.unpack)(stacked) if jax.tree.leaves(stacked) else stacked


@kernels.exact
def update_server(method: Method, cohorts, key: Array, server: Tree, ups) -> Tree:
    """Aggregation and server step over the uploads of all cohorts, in id order."""
    return method.update(cohorts[0].net, server, received(cohorts, ups), key)


@kernels.exact
def pre_aggregate_server(
    method: Method, cohorts, key: Array, server: Tree, ups
) -> Tree:
    """The server's state with what it makes of the first exchange."""
    return method.pre_aggregate(server, received(cohorts, ups), key)


def evaluate_cohort(
    method: Method,
    cohort: Cohort,
    down: Tree,
    clients: Client,
    examples: Examples,
    shards: Shard,
) -> dict[str, Array]:
    """Correct predictions per rule and client: {rule: [K]}.

    Args:
      down: the broadcast, as clients have it.
    """

    def one(client, shard):
        data = Data(examples, shard)
        return clients_.score(method, cohort.net, down, client, data)

    return cohort.mode.each(one)(clients, shards)


def check_cohorts(method: Method, cohorts: Sequence[Cohort], spec: Spec, x):
    """Fails before training, by shapes alone, where method and cohorts do not fit.

    Args:
      x: one batch of inputs as a ShapeDtypeStruct.

    Raises:
      UserError: names the cohorts, or the array and both shapes.
    """
    _check_architectures(method, cohorts)
    method.check_input(x)
    for cohort in cohorts:
        _check_features(cohort, spec, x)
    key = jax.eval_shape(lambda: jax.random.key(0))
    server = jax.eval_shape(partial(method.init_server, cohorts[0].net), key)
    down = jax.eval_shape(method.broadcast, server)
    for cohort in cohorts:
        params = jax.eval_shape(partial(method.init_client, cohort.net), key)[0]
        _check_received(cohort, params, jax.eval_shape(method.receive, params, down))


def _check_architectures(method: Method, cohorts: Sequence[Cohort]):
    if method.homogeneous and len(cohorts) > 1:
        first, *others = (cohort.name for cohort in cohorts)
        raise UserError(
            f"{method.name} averages networks, so all clients need one architecture, "
            f"but there are {len(cohorts)}: {', '.join([first, *others])}. Choose one, "
            f"such as model.group={first}, or a method for several architectures."
        )


def _check_features(cohort: Cohort, spec: Spec, x):
    params, norm = jax.eval_shape(cohort.net.init, jax.eval_shape(jax.random.key, 0))
    out = jax.eval_shape(lambda *a: cohort.net.apply(*a, False), params, norm, x)
    for what, got, want in [
        ("feature dimension", out.feat.shape[-1], spec.feat_dim),
        ("number of classes", out.logits.shape[-1], spec.num_classes),
    ]:
        if got != want:
            raise UserError(
                f"network {cohort.name!r} has {what} {got}, but the federation has "
                f"{want}: prototypes of all cohorts must have one shape. Build it "
                f"with {what} {want} or leave it out of the group."
            )


def _check_received(cohort: Cohort, have: Tree, got: Tree):
    have = dict(jax.tree_util.tree_leaves_with_path(have))
    got = dict(jax.tree_util.tree_leaves_with_path(got))
    for path in [*have, *(p for p in got if p not in have)]:
        a, b = (getattr(t.get(path), "shape", "nothing") for t in (have, got))
        if a != b:
            raise UserError(
                f"cohort {cohort.name!r}: the broadcast would turn "
                f"{jax.tree_util.keystr(path)} from {a} into {b}. A method that "
                "shares this part needs clients of one architecture."
            )
