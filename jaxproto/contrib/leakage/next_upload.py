"""What a client of a finished run would upload next.

A run keeps no uploads. The one of a client is reproduced by one more round from the
last checkpoint: the server broadcasts, the client receives, trains and makes its
message, all by the functions of the run's own round (`jaxproto/client.py`), with the
batch order that round would have. Everyone takes part in an exchange before training.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import client as clients_
from jaxproto import wire
from jaxproto.client import LocalTask, LocalTraining
from jaxproto.config import privacy
from jaxproto.errors import UserError
from jaxproto.execution import MAX_STEPS
from jaxproto.experiment import build, cohorts
from jaxproto.federation import Cohort
from jaxproto.participation import Participation
from jaxproto.privacy import OFF, release
from jaxproto.saved_runs import restore
from jaxproto.saved_runs.restore import RestoredRun
from jaxproto.saved_runs.saved_client import check_id
from jaxproto.summary import host_prototypes
from jaxproto.training import programs
from jaxproto.types import (
    Array,
    ArrayLike,
    Client,
    Data,
    Examples,
    Net,
    Protos,
    Shard,
    Top,
    Tree,
)


class NextRound(NamedTuple):
    """The round after the last checkpoint, as its clients find it."""

    run: RestoredRun  # with every client in its state
    examples: Examples
    local: LocalTraining  # with the learning rate of the run's last round
    key: Array
    first: Tree  # the broadcast before an exchange that precedes the training
    down: Tree  # the one that clients train with


class RoundStages(NamedTuple):
    """A client in one round. The messages are not on the wire yet."""

    received: Client  # with the broadcast
    trained: Client
    early: Tree  # what it sends before training; () of most methods
    up: Tree  # what it sends afterwards
    idle: Tree  # what it would send without a step: what the server knows already
    order: Array  # [M] positions in the client's data, as they are trained on


class Embedding(NamedTuple):
    """Features [B, D] that the prototypes of a method are of, by a network."""

    features: Callable  # net, client, x -> [B, D]
    net: Net

    def __call__(self, client: Client, x: ArrayLike) -> Array:
        """Returns the features of inputs [B, ...]."""
        return self.features(self.net, client, x)


class CapturedUpload(NamedTuple):
    """A client of the next round and what its messages are made of."""

    next: NextRound
    net: Net
    id: int
    stages: RoundStages
    rows: np.ndarray  # of the examples it trains on, in their order

    @property
    def embedding(self) -> Embedding:
        """The features that the client's prototypes are of."""
        return Embedding(self.next.run.exp.method.features, self.net)


def next_round(workdir, data_dir: str = "") -> NextRound:
    """Opens a run and plays its next round up to the clients' training.

    Raises:
      UserError: the folder has no run, or no checkpoint that can be used.
    """
    run = restore.load(workdir, data_dir)
    whole = tuple(map(cohorts.with_all_in_one_call, run.exp.cohorts))
    run = run._replace(exp=run.exp._replace(cohorts=whole))
    exp, seed = run.exp, run.config.seed
    examples, compiled = build.examples(exp.dataset), restore.jit_programs(exp)
    context = programs.round_context(seed, run.round)
    server = run.state.server
    first = down = compiled.broadcast(server).message
    if compiled.pre_aggregate is not None:
        everyone = Participation(*[jnp.ones(len(exp.partition.train), bool)] * 2)
        each = zip(compiled.pre_upload, run.state.clients, exp.train, strict=True)
        inputs = programs.RoundInputs(context, everyone, down)
        ups = [f(inputs, own, examples, shard) for f, own, shard in each]
        server = compiled.pre_aggregate(
            context, server, tuple(uploads for uploads, _ in ups)
        )
        down = compiled.broadcast(server).message
    local = exp.local.at_round(jnp.int32(min(run.round, run.config.rounds - 1)))
    key = jax.random.fold_in(context.key, 1)
    return NextRound(run, examples, local, key, first, down)


def upload(next: NextRound, id: int, batch: int = 0, steps: int = 0) -> CapturedUpload:
    """The upload of a client, after its own training or a shorter one.

    Args:
      id: of the client.
      batch: examples of a step; 0 is as many as in the run.
      steps: local steps of one epoch; 0 is the whole training of a round.

    Raises:
      UserError: no such client, or it has too few examples.
    """
    exp = next.run.exp
    check_id(id, len(exp.partition.train))
    number, cohort = cohort_and_index(next.run, id)
    at, held = cohort.ids.index(id), len(exp.partition.train[id])
    if batch * steps > held:
        raise UserError(
            f"client {id} has {held} training examples, fewer than {batch} x {steps}; "
            "ask for fewer, or for another client."
        )
    local = next.local
    if steps:
        local = dataclasses.replace(local, epochs=1, batch_size=batch)
    one = jax.tree.map(lambda a: jnp.asarray(a)[at], next.run.state.clients[number])
    one = cohort.persistence.restore(exp.method, cohort.net, one)
    shard = jax.tree.map(lambda a: jnp.asarray(a)[at], exp.train[number])

    @jax.jit
    def play(key, first, down, client, examples, shard):
        task = LocalTask(exp.method, cohort.net, local, key, down, examples)
        return simulate_client(task, first, client, shard, steps or MAX_STEPS)

    made = jax.device_get(
        play(next.key, next.first, next.down, one, next.examples, shard)
    )
    used = made.order[: batch * steps or held]
    return CapturedUpload(next, cohort.net, id, made, np.asarray(shard.index)[used])


def cohort_and_index(run: RestoredRun, id: int) -> tuple[int, Cohort]:
    """The cohort of a client, and its number."""
    return next((n, c) for n, c in enumerate(run.exp.cohorts) if id in c.ids)


def simulate_client(
    task: LocalTask, first: Tree, client: Client, shard: Shard, last: int
) -> RoundStages:
    """The stages of one client's round, of `last` local steps at most.

    Args:
      first: the broadcast before an exchange that precedes the training.
    """
    method = task.method
    begun = client.replace(
        params=method.receive(client.params, first),
        norm=method.receive_stats(client.norm, first),
    )
    early = method.pre_upload(task.net, begun, Data(task.examples, shard), first)
    start = clients_.begin_local_training(task, client, shard)
    bare = task._replace(method=dataclasses.replace(method, release=None))
    _, idle, _ = clients_.finish_local_training(bare, start, client, shard)
    ended = clients_.local_steps(task, start, 0, last, client, shard)
    trained, up, _ = clients_.finish_local_training(task, ended, client, shard)
    return RoundStages(start.before, trained, early, up, idle, start.order[0])


def on_the_wire(
    made: CapturedUpload, form: str, noise: float, seed: int
) -> tuple[Tree, Tree]:
    """Both messages as the server has them: noise of the client, then the wire.

    Args:
      form: of values on the wire.
      noise: standard deviation of Gaussian noise on every value, in units of the root
        mean square of what its array says: prototypes as they are, other values less
        what the server knows. Nothing is clipped, so that is no differential privacy.
      seed: of the noise.
    """
    stages, key = made.stages, jax.random.fold_in(jax.random.key(seed), made.id)
    known = jax.tree.map(jnp.zeros_like, stages.early), stages.idle
    messages = []
    for way, said in enumerate((stages.early, stages.up)):
        hidden = add_noise(said, known[way], noise, jax.random.fold_in(key, way))
        messages.append(jax.device_get(wire.roundtrip(hidden, form)))
    return messages[0], messages[1]


def add_noise(message: Tree, known: Tree, noise: float, key: Array) -> Tree:
    """A message with noise on its values, as far as they are there."""
    parts, form = jax.tree.flatten(message, is_leaf=wire.is_message_node)
    before = jax.tree.leaves(known, is_leaf=wire.is_message_node)
    each = enumerate(zip(parts, before, strict=True))
    made = [_noised(*pair, noise, jax.random.fold_in(key, i)) for i, pair in each]
    return jax.tree.unflatten(form, made)


def _noised(part, known, noise, key):
    if isinstance(part, Protos):
        there = jnp.broadcast_to(part.count[:, None] > 0, part.mean.shape)
        return part.replace(mean=_with_noise(part.mean, part.mean, there, noise, key))
    if isinstance(part, Top):
        value, new = part.value, part.value - known.value
        there = part.sent.reshape(part.sent.shape + (1,) * (value.ndim - 1))
        there = jnp.broadcast_to(there, value.shape)
        return part.replace(value=_with_noise(value, new, there, noise, key))
    if not jnp.issubdtype(part.dtype, jnp.floating):
        return part
    there = jnp.ones(part.shape, bool)
    return _with_noise(part, part - known, there, noise, key)


def _with_noise(value, new, there, noise, key):
    size = jnp.sqrt(
        jnp.sum(jnp.where(there, new, 0.0) ** 2) / jnp.maximum(there.sum(), 1)
    )
    moved = noise * size * jax.random.normal(key, value.shape)
    return value + jnp.where(there, moved, 0.0)


def prototypes(early: Tree, up: Tree) -> Protos | None:
    """The prototypes of the client's own data in its messages; None without any.

    RefProtoFL's clients send some of public examples as well, which are passed over.
    """
    first = host_prototypes.find_prototypes(getattr(early, "own", early))
    return host_prototypes.find_prototypes(up) if first is None else first


def as_server_reads(made: CapturedUpload, sent: tuple[Tree, Tree]) -> Protos | None:
    """The same as the server reads them: under privacy, noisy sums of rows.

    Of a class whose weight is not surely above 0 there is no row.
    """
    found, config = prototypes(*sent), made.next.run.config
    if found is None or config.privacy.unit == OFF:
        return found
    rows = release.MEANS._replace(weighed=has_weight_column(made, found))
    deviation = float(privacy.privacy_of(config).deviation)
    return jax.device_get(release.denoised_means(found.mean, deviation, rows))


def has_weight_column(made: CapturedUpload, found: Protos) -> bool:
    """Whether private rows have a column of weights, which the broadcast has not."""
    down = host_prototypes.find_prototypes(made.next.down)
    return bool(down is not None and found.mean.shape[-1] > down.mean.shape[-1])


def network(message: Tree, like: Tree) -> Tree | None:
    """The network in a message: what has the form of `like`; None without one."""
    form: Any = jax.tree.structure(like)

    def fits(node) -> bool:
        return bool(jax.tree.structure(node) == form)

    return next(filter(fits, jax.tree.leaves(message, is_leaf=fits)), None)
