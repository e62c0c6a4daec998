"""Clients that join a saved run: they receive the broadcast and train locally.

They go through the stages of `jaxproto/round/client.py` like every client of a round.
Their upload is computed, since methods may remember it, but the server does not
receive it.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pandas as pd

from jaxproto import models, wire
from jaxproto.core import batches
from jaxproto.core.types import Client, Examples, Net, Shard, Tree
from jaxproto.data.dataset import Dataset
from jaxproto.errors import UserError
from jaxproto.experiment import statelessness
from jaxproto.experiment.build import Experiment
from jaxproto.lab.saved_runs import user_inputs
from jaxproto.lab.saved_runs.restore import RestoredRun
from jaxproto.lab.saved_runs.saved_client import (
    ClientData,
    CompiledClient,
    ExampleSet,
    SavedClient,
)
from jaxproto.round.client import (
    LocalTask,
    all_steps,
    begin_local_training,
    finish_local_training,
    init_client,
    local_step,
    num_steps,
)
from jaxproto.round.cohort import check_cohorts
from jaxproto.round.federation import TRAINING, Cohort
from jaxproto.training import programs


def examples_of(dataset: Dataset, train: tuple, test: tuple) -> ClientData:
    """Checks examples (x, y) of a client; returns them as the data set stores them.

    Raises:
      UserError: They do not fit the data of the run.
    """
    parts = []
    for x, y in (train, test):
        x = user_inputs.to_dataset_inputs(dataset, x)
        parts.append(ExampleSet(x, user_inputs.to_class_ids(dataset, y, len(x))))
    return ClientData(*parts)


def architecture(
    exp: Experiment, config: ml_collections.ConfigDict, name: str, id: int
) -> tuple[str, Net]:
    """Returns the network of a new client and its name.

    Args:
      name: Name in the registry; "" is the network that the group gives to `id`.

    Raises:
      UserError: The network does not fit the others.
    """
    name = name or models.assign_networks(config.model.group, [id])[0]
    for cohort in exp.cohorts:
        if cohort.name == name:
            return name, cohort.net
    net = exp.network(name)
    x = jax.eval_shape(batches.normalise_inputs, jnp.zeros_like(exp.dataset.x[:1]))
    cohorts = [*exp.cohorts, Cohort(name, net, (id,))]
    check_cohorts(exp.method, cohorts, exp.spec, x)
    return name, net


def join(
    run: RestoredRun,
    compiled: CompiledClient,
    down: Tree,
    data: ClientData,
    id: int,
    epochs: int,
) -> SavedClient:
    """Returns a new client after local training, with its accuracies in `joined`.

    Args:
      down: The broadcast.
      id: Its id, which determines its randomness.
      epochs: Epochs of its training; 0 takes the number of the configuration.

    Raises:
      UserError: `epochs` is negative.
    """
    if epochs < 0:
        raise UserError(f"epochs is {epochs}; give 1 or more, or 0 for the run's own.")
    exp, seed = run.exp, run.config.seed
    r = min(run.round, run.config.rounds - 1)
    local = exp.local.at_round(jnp.int32(r))
    # a new client has no device, whose speed could limit its steps
    limit = local.limit_steps if id < run.config.data.clients else all_steps
    local = dataclasses.replace(local, epochs=epochs or local.epochs, limit_steps=limit)
    _, key = programs.round_context(seed, r)
    keys = programs.keys(seed)[0], jax.random.fold_in(key, TRAINING)
    count_C = np.bincount(data.train.y, minlength=exp.spec.num_classes)
    examples, shard = with_public_examples(exp.dataset, data)

    @jax.jit
    def stages(keys, id, count_C, down, examples, shard):
        """Returns the client as initialised, after the broadcast and after training."""
        task = LocalTask(exp.method, compiled.net, local, keys[1], down, examples)
        before = init_client(task.method, task.net, task.local, keys[0], id, count_C)
        start = begin_local_training(task, before, shard)
        step = partial(local_step, task, before, shard)
        end = jax.lax.fori_loop(0, num_steps(start), step, start)
        trained, _, _ = finish_local_training(task, end, before, shard)
        return before, start.before, trained

    states = stages(keys, jnp.int32(id), jnp.float32(count_C), down, examples, shard)
    own = partial(ClientData, *data)
    clients = [SavedClient(compiled, state, down, own) for state in states]
    uses_broadcast = rules_using_broadcast(compiled, states[0], down, data.train.x[:1])
    before, received, trained = (client.accuracies() for client in clients)
    rows = [
        {
            "rule": rule,
            "before": np.nan if uses_broadcast[rule] else before[rule],
            "after_broadcast": received[rule],
            "after_training": trained[rule],
        }
        for rule in uses_broadcast
    ]
    new = clients[-1]
    new.joined = pd.DataFrame(rows)
    return new


def with_public_examples(dataset: Dataset, data: ClientData) -> tuple[Examples, Shard]:
    """Returns the training examples of a client with the public ones of the run."""
    (x, y), size, rows = data.train, len(data.train.y), dataset.public
    shard = Shard(jnp.arange(size, dtype=jnp.int32), jnp.int32(size))
    if rows is None:
        return Examples(jnp.asarray(x), jnp.asarray(y)), shard
    public = size + jnp.arange(len(rows), dtype=jnp.int32)
    x, y = np.concatenate([x, dataset.x[rows]]), np.concatenate([y, dataset.y[rows]])
    return Examples(jnp.asarray(x), jnp.asarray(y), public), shard


def rules_using_broadcast(
    compiled: CompiledClient, client: Client, down: Tree, x: np.ndarray
) -> dict[str, bool]:
    """Returns, for each rule, whether it reads the broadcast."""

    def scores(client, down, x, rule):
        x, down = batches.normalise_inputs(x), wire.for_client(down, client.id)
        return compiled.method.predict(compiled.net, client, x, down)[rule]

    inputs, uses = (client, down, jnp.asarray(x)), {}
    for rule in jax.eval_shape(compiled.scores, *inputs):
        used = statelessness.inputs_used(partial(scores, rule=rule), *inputs)[1]
        uses[rule] = any(jax.tree.leaves(used))
    return uses
