"""Upload that a client of a finished run would send next.

A run stores no uploads. One more round from the last checkpoint computes the upload of
a client: the server broadcasts, the client receives, trains and uploads, with the
functions of `jaxproto/round/client.py` and the batch order of that round. If the
method has an exchange before training, all clients take part in it.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from jaxproto import wire
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import (
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
from jaxproto.errors import UserError
from jaxproto.experiment import build, cohorts
from jaxproto.lab.saved_runs import restore
from jaxproto.lab.saved_runs.restore import RestoredRun
from jaxproto.lab.saved_runs.saved_client import check_id
from jaxproto.round.client import (
    LocalTask,
    LocalTraining,
    begin_local_training,
    finish_local_training,
    local_step,
    num_steps,
    receive,
)
from jaxproto.round.federation import Cohort
from jaxproto.round.participation import Participation
from jaxproto.summary import host_prototypes
from jaxproto.training import programs

Messages = tuple[Tree, Tree]  # of a client, before and after training


class NextRound(NamedTuple):
    """Round after the last checkpoint, before its clients train."""

    run: RestoredRun  # with the state of every client
    examples: Examples
    local: LocalTraining  # with the learning rate of the last round of the run
    key: Array
    first: Tree  # broadcast before an exchange that precedes training
    down: Tree  # broadcast that clients train with


class RoundStages(NamedTuple):
    """Stages of a client in one round, with messages before wire encoding."""

    received: Client  # after the broadcast
    trained: Client
    early: Tree  # message before training; () in most methods
    up: Tree  # message after training
    idle: Tree  # message without training: known to the server
    order: Array  # [M] positions in the data of the client, in training order


class Embedding(NamedTuple):
    """Feature extractor whose class means are the prototypes of a method."""

    features: Callable  # net, client, x -> [B, D]
    net: Net

    def __call__(self, client: Client, x: ArrayLike) -> Array:
        """Returns the features of inputs [B, ...]."""
        return self.features(self.net, client, x)


class CapturedUpload(NamedTuple):
    """Client of the next round, with its stages and training examples."""

    next: NextRound
    net: Net
    id: int
    stages: RoundStages
    rows: np.ndarray  # row numbers of its training examples, in training order

    @property
    def embedding(self) -> Embedding:
        """Returns the feature extractor of the prototypes."""
        return Embedding(self.next.run.exp.method.features, self.net)


def next_round(workdir, data_dir: str = "") -> NextRound:
    """Opens a run and computes its next round up to local training."""
    run = restore.load(workdir, data_dir)
    joined = tuple(map(cohorts.with_all_in_one_call, run.exp.cohorts))
    run = run._replace(exp=run.exp._replace(cohorts=joined))
    exp, seed = run.exp, run.config.seed
    examples, compiled = build.examples(exp.dataset), programs.jit_programs(exp)
    context = programs.round_context(seed, run.round)
    server = run.state.server
    first = down = compiled.broadcast(server).message
    if compiled.pre_aggregate:
        everyone = Participation(*[jnp.ones(len(exp.partition.train), bool)] * 2)
        args = zip(compiled.pre_upload, run.state.clients, exp.train, strict=True)
        given = context, everyone, down
        ups = [f(*given, client, examples, shard) for f, client, shard in args]
        uploads = tuple(uploads for uploads, _ in ups)
        server = compiled.pre_aggregate(context, server, uploads)
        down = compiled.broadcast(server).message
    local = exp.local.at_round(jnp.int32(min(run.round, run.config.rounds - 1)))
    key = jax.random.fold_in(context[1], 1)
    return NextRound(run, examples, local, key, first, down)


def upload(
    next: NextRound,
    id: int,
    batch: int = 0,
    steps: int = 0,
    *,
    client: Client | None = None,
    rows: np.ndarray | None = None,
) -> CapturedUpload:
    """Computes the upload of a client after local training.

    Args:
      batch: Examples per step; 0 takes the batch size of the run.
      steps: Local steps of one epoch; 0 trains as in a round of the run.
      client: State of the client before the round; None is that of the run.
      rows: Rows of the training examples that it uses; None takes all of the client.
    """
    exp = next.run.exp
    cohort, saved, shard = client_before(next, id)
    rows = exp.partition.train[id] if rows is None else rows
    num_examples = len(rows)
    if batch * steps > num_examples:
        raise UserError(
            f"client {id} has {num_examples} training examples, fewer than "
            f"{batch} x {steps}; ask for fewer, or for another client."
        )
    local = next.local
    if steps:
        local = dataclasses.replace(local, epochs=1, batch_size=batch)
    table = np.zeros_like(shard.index)
    table[:num_examples] = rows
    shard = Shard(table, np.asarray(num_examples, np.int32))
    counts = np.bincount(exp.dataset.y[rows], minlength=exp.spec.num_classes)
    client = saved if client is None else client
    client = client.replace(count=jnp.asarray(counts, jnp.float32))

    @jax.jit
    def simulate(key, first, down, client, examples, shard):
        task = LocalTask(exp.method, cohort.net, local, key, down, examples)
        return simulate_client(task, first, client, shard, steps)

    stages = jax.device_get(
        simulate(next.key, next.first, next.down, client, next.examples, shard)
    )
    used = stages.order[: batch * steps or num_examples]
    return CapturedUpload(next, cohort.net, id, stages, table[used])


def client_before(next: NextRound, id: int) -> tuple[Cohort, Client, Shard]:
    """Returns the cohort, the state and the examples of a client before the round.

    Raises:
      UserError: the run has no such client.
    """
    exp, state = next.run.exp, next.run.state
    check_id(id, len(exp.partition.train))
    index, cohort = cohort_and_index(next.run, id)
    row, of_cohort = cohort.ids.index(id), (state.clients[index], exp.train[index])
    client, shard = jax.tree.map(lambda a: jnp.asarray(a)[row], of_cohort)
    return cohort, cohort.kept_state.restore(exp.method, cohort.net, client), shard


def cohort_and_index(run: RestoredRun, id: int) -> tuple[int, Cohort]:
    """Returns the index and the cohort of a client."""
    return next((n, c) for n, c in enumerate(run.exp.cohorts) if id in c.ids)


def simulate_client(
    task: LocalTask, first: Tree, client: Client, shard: Shard, steps: int = 0
) -> RoundStages:
    """Computes the stages of a round of one client.

    Args:
      first: Broadcast before an exchange that precedes training.
      steps: Maximum number of local steps; 0 is those of the client.
    """
    method = task.method
    received, own = receive(method, client, first)
    early = method.pre_upload(task.net, received, Data(task.examples, shard), own)
    start = begin_local_training(task, client, shard)
    unreleased = task._replace(method=dataclasses.replace(method, release=None))
    _, idle, _ = finish_local_training(unreleased, start, client, shard)
    count = num_steps(start)
    last, step = jnp.minimum(steps or count, count), partial(local_step, task)
    end = lax.fori_loop(0, last, partial(step, client, shard), start)
    trained, up, _ = finish_local_training(task, end, client, shard)
    return RoundStages(start.before, trained, early, up, idle, start.order[0])


def on_the_wire(
    captured: CapturedUpload, form: str, noise: float, seed: int
) -> Messages:
    """Returns both messages as the server receives them: noise, then wire format.

    Args:
      form: Wire format of values.
      noise: Standard deviation of Gaussian noise on every value, relative to the root
        mean square of its array: of prototypes, or of the difference to what the server
        knows. Nothing is clipped, so this is no differential privacy.
    """
    stages, key = captured.stages, jax.random.fold_in(make_key(seed), captured.id)
    known = jax.tree.map(jnp.zeros_like, stages.early), stages.idle
    messages = []
    for n, message in enumerate((stages.early, stages.up)):
        noisy = add_noise(message, known[n], noise, jax.random.fold_in(key, n))
        messages.append(jax.device_get(wire.roundtrip(noisy, form)))
    return messages[0], messages[1]


def add_noise(message: Tree, known: Tree, noise: float, key: Array) -> Tree:
    """Adds noise to the values of a message that are sent."""
    parts, structure = jax.tree.flatten(message, is_leaf=wire.is_message_node)
    before = jax.tree.leaves(known, is_leaf=wire.is_message_node)
    pairs = enumerate(zip(parts, before, strict=True))
    noisy = [_noisy_part(*pair, noise, jax.random.fold_in(key, i)) for i, pair in pairs]
    return jax.tree.unflatten(structure, noisy)


def _noisy_part(part, known, noise, key):
    if isinstance(part, Protos):
        mean = _with_noise(part.mean, part.mean, part.count > 0, noise, key)
        return part.replace(mean=mean)
    if isinstance(part, Top):
        unknown = part.value - known.value
        return part.replace(
            value=_with_noise(part.value, unknown, part.sent, noise, key)
        )
    if not jnp.issubdtype(part.dtype, jnp.floating):
        return part
    return _with_noise(part, part - known, jnp.ones(part.shape, bool), noise, key)


def _with_noise(value, unknown, is_sent, noise, key):
    """Adds noise to the rows or entries of `value` that are sent."""
    rest = (1,) * (value.ndim - is_sent.ndim)
    is_sent = jnp.broadcast_to(is_sent.reshape(*is_sent.shape, *rest), value.shape)
    rms = jnp.sqrt(
        jnp.sum(jnp.where(is_sent, unknown, 0.0) ** 2) / jnp.maximum(is_sent.sum(), 1)
    )
    noise_values = noise * rms * jax.random.normal(key, value.shape)
    return value + jnp.where(is_sent, noise_values, 0.0)


def prototypes(early: Tree, up: Tree) -> Protos | None:
    """Returns the prototypes of private data in the messages of a client, if any.

    Clients of RefProtoFL also send prototypes of public examples, which are ignored.
    """
    protos = host_prototypes.find_prototypes(getattr(early, "own", early))
    return host_prototypes.find_prototypes(up) if protos is None else protos


def network(captured: CapturedUpload, up: Tree) -> Tree | None:
    """Returns the network that a received upload reveals; None without one.

    Some methods (FedNova, SCAFFOLD, FedDyn) send its change, times a factor that the
    server knows.
    """
    stages, before = captured.stages, captured.stages.received.params
    structure: Any = jax.tree.structure(before)

    def fits(node) -> bool:
        return bool(jax.tree.structure(node) == structure)

    def part(message):
        return next(filter(fits, jax.tree.leaves(message, is_leaf=fits)), None)

    message, idle = part(up), part(stages.idle)
    if message is None or jax.tree.all(jax.tree.map(np.array_equal, idle, before)):
        return message
    change = optax.tree.sub(part(stages.up), idle)
    moved = optax.tree.sub(stages.trained.params, before)
    square = max(float(optax.tree.norm(change, squared=True)), 1e-30)
    factor = optax.tree.vdot(change, moved) / square
    return optax.tree.add_scale(before, factor, optax.tree.sub(message, idle))
