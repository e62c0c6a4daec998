"""A client that never trained joins a run: what it receives, and its own training.

It goes through the stages of `jaxproto/client.py`, as every client of a round. The
server learns nothing of it: its upload is made, as methods remember what they sent, and
goes nowhere.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import batches, models
from jaxproto import client as clients_
from jaxproto.client import LocalTask
from jaxproto.config.checks import network_names
from jaxproto.data.dataset import Dataset
from jaxproto.errors import UserError
from jaxproto.execution import MAX_STEPS
from jaxproto.experiment import build, shape_checks, statelessness
from jaxproto.experiment.build import Experiment
from jaxproto.federation import Cohort
from jaxproto.saved_runs import user_inputs
from jaxproto.saved_runs.metrics_table import Table
from jaxproto.saved_runs.restore import RestoredRun
from jaxproto.saved_runs.saved_client import (
    ClientData,
    CompiledClient,
    ExampleSet,
    SavedClient,
)
from jaxproto.training import programs
from jaxproto.types import Array, Client, Examples, Net, Shard, Tree


class JoinStages(NamedTuple):
    """A client that joins."""

    before: Client  # as it is drawn
    received: Client  # with what the server broadcasts
    trained: Client


def examples_of(dataset: Dataset, given: tuple, given_test: tuple) -> ClientData:
    """What a user gives of a client, checked, as the data set stores it.

    Raises:
      UserError: it does not fit the data of the run.
    """
    parts = []
    for x, y in (given, given_test):
        stored = user_inputs.to_dataset_inputs(dataset, x)
        parts.append(
            ExampleSet(stored, user_inputs.to_class_ids(dataset, y, len(stored)))
        )
    return ClientData(*parts)


def architecture(
    exp: Experiment, config: ml_collections.ConfigDict, asked: str, id: int
) -> tuple[str, Net]:
    """The network of a new client, and its name.

    Args:
      asked: of the registry; "" is the one that the group gives to this id.

    Raises:
      UserError: it does not go with the others.
    """
    name = asked or models.assign_networks(network_names(config.model.group), [id])[0]
    for cohort in exp.cohorts:
        if cohort.name == name:
            return name, cohort.net
    net = build.network_factory(exp.dataset, exp.spec, config.model.compute_dtype)(name)
    x = jax.eval_shape(batches.normalise_inputs, jnp.zeros_like(exp.dataset.x[:1]))
    shape_checks.check_cohorts(
        exp.method, [*exp.cohorts, Cohort(name, net, (id,))], exp.spec, x
    )
    return name, net


def join(
    run: RestoredRun,
    tools: CompiledClient,
    down: Tree,
    data: ClientData,
    id: int,
    epochs: int,
) -> SavedClient:
    """A new client after its own training.

    Args:
      tools: of its architecture.
      down: the broadcast.
      data: its examples.
      id: which its randomness follows from.
      epochs: of its training; 0 is as many as the configuration has.

    Raises:
      UserError: another number of epochs.
    """
    if epochs < 0:
        raise UserError(f"epochs is {epochs}; give 1 or more, or 0 for the run's own.")
    made = simulate_join(run, tools, down, data, id, epochs)
    each = [SavedClient(tools, state, down, lambda: data) for state in made]
    asks = rules_using_broadcast(tools, made.before, down, data.train.x[:1])
    found = [one.accuracies() for one in each]
    rows = [
        {
            "rule": rule,
            "before": None if asks[rule] else found[0][rule],
            "after_broadcast": found[1][rule],
            "after_training": found[2][rule],
        }
        for rule in asks
    ]
    joined = Table.of_rows(rows)
    return SavedClient(tools, made.trained, down, lambda: data, joined)


def simulate_join(
    run: RestoredRun,
    tools: CompiledClient,
    down: Tree,
    data: ClientData,
    id: int,
    epochs: int,
) -> JoinStages:
    """The client as it is drawn, with what it receives, and trained."""
    exp, seed = run.exp, run.config.seed
    last = min(run.round, run.config.rounds - 1)
    local = exp.local.at_round(jnp.int32(last))
    local = dataclasses.replace(local, epochs=epochs or local.epochs)
    context = programs.round_context(seed, last)
    keys = programs.keys(seed)[0], jax.random.fold_in(context.key, 1)
    count_C = np.bincount(data.train.y, minlength=exp.spec.num_classes)
    examples, shard = with_public_examples(exp.dataset, data)

    @jax.jit
    def join(keys, id, count_C, down, examples, shard):
        task = LocalTask(exp.method, tools.net, local, keys[1], down, examples)
        return join_stages(task, keys[0], id, count_C, shard)

    return join(keys, jnp.int32(id), jnp.float32(count_C), down, examples, shard)


def with_public_examples(dataset: Dataset, data: ClientData) -> tuple[Examples, Shard]:
    """The examples that a client trains on, with the public ones of the run."""
    (x, y), size = data.train, len(data.train.y)
    index = jnp.arange(size, dtype=jnp.int32)
    if dataset.public is None:
        return Examples(jnp.asarray(x), jnp.asarray(y)), Shard(index, jnp.int32(size))
    rows = dataset.public
    public = size + jnp.arange(len(rows), dtype=jnp.int32)
    x, y = np.concatenate([x, dataset.x[rows]]), np.concatenate([y, dataset.y[rows]])
    shown = Examples(jnp.asarray(x), jnp.asarray(y), public)
    return shown, Shard(index, jnp.int32(size))


def join_stages(
    task: LocalTask, key: Array, id: Array, count_C: Array, shard: Shard
) -> JoinStages:
    """The stages of local training, as of a client in its first round.

    Args:
      key: of initial networks.
      count_C: training examples per class.
    """
    before = clients_.init_client(task.method, task.net, task.local, key, id, count_C)
    session = clients_.begin_local_training(task, before, shard)
    received = session.before
    session = clients_.local_steps(task, session, 0, MAX_STEPS, before, shard)
    trained, _, _ = clients_.finish_local_training(task, session, before, shard)
    return JoinStages(before, received, trained)


def rules_using_broadcast(
    tools: CompiledClient, client: Client, down: Tree, x: np.ndarray
) -> dict[str, bool]:
    """Which rules read what the server sends: {rule: whether}."""

    def scores(client, down, x, rule):
        shown = batches.normalise_inputs(x)
        return tools.method.predict(tools.net, client, shown, down)[rule]

    asked = client, down, jnp.asarray(x)
    form, found = jax.tree.structure(asked), {}
    for rule in jax.eval_shape(tools.scores, *asked):
        marks = jax.tree.unflatten(
            form, statelessness.inputs_used(partial(scores, rule=rule), *asked)
        )
        found[rule] = any(jax.tree.leaves(marks[1]))
    return found
