"""Evaluation of a cohort: sums of every rule and metric, client by client.

One program per architecture, as training (`federation.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto import batches
from jaxproto import client as clients_
from jaxproto.client import EvaluationSpec
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.metrics import ACCURACY, Metric
from jaxproto.types import Array, Client, Data, Examples, Shard, Tree


class EvaluationInputs(NamedTuple):
    """Inputs that all clients of a cohort share in an evaluation."""

    method: Method
    cohort: Cohort
    metrics: Sequence[Metric]  # of every rule
    down: Tree  # the broadcast, as clients have it
    examples: Examples


def evaluate_cohort(
    inputs: EvaluationInputs, clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums per rule, metric and client: {rule: {metric: [R, ...]}}.

    Args:
      clients: that are evaluated, [R, ...].
      shards: their test examples.
    """
    method, cohort, metrics, down, examples = inputs

    def one(client, shard):
        data = Data(examples, shard)
        return clients_.evaluate_client(
            method, cohort.net, down, client, data, EvaluationSpec(metrics)
        )

    return cohort.mode.each(one)(clients, shards)


def evaluate_shared(
    inputs: EvaluationInputs, rules: Sequence[str], clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums of a network shared by all clients, as `evaluate_cohort`.

    Args:
      rules: that need no state of a client.
      clients: that keep no state.
      shards: test examples of clients, equal ones once.
    """
    method, cohort, metrics, down, examples = inputs
    client, asked = _any_client(inputs, clients), EvaluationSpec(metrics, rules)

    def one(shard):
        data = Data(examples, shard)
        return clients_.evaluate_client(method, cohort.net, down, client, data, asked)

    return cohort.mode.each(one)(shards)


def evaluate_examples(
    inputs: EvaluationInputs, rules: Sequence[str], clients: Client, index_TB: Array
) -> dict[str, Tree]:
    """Returns which test examples a shared network gets right, each computed once.

    Args:
      rules, clients: as in `evaluate_shared`.
      index_TB: all examples, a batch a row [T, B].

    Returns:
      {rule: {"accuracy": [T, B]}}.
    """
    method, cohort, _, down, examples = inputs
    client = _any_client(inputs, clients)

    def batch(index_B):
        data = Data(examples, Shard(index_B, jnp.int32(len(index_B))))
        ones = jnp.ones(len(index_B))
        inputs = batches.gather_examples(data, jnp.arange(len(index_B)), ones)
        hits = clients_.correct_predictions(method, cohort.net, down, client, inputs)
        return {rule: {ACCURACY: hits[rule]} for rule in rules}

    return lax.map(batch, index_TB)


def _any_client(inputs: EvaluationInputs, clients: Client) -> Client:
    """Returns a client of which rules read nothing."""
    first, cohort = jax.tree.map(lambda a: a[:1], clients), inputs.cohort
    stacked = cohort.persistence.restore(inputs.method, cohort.net, first)
    return jax.tree.map(lambda a: a[0], stacked)
