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
from jaxproto.client import Asked
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.metrics import ACCURACY, Metric
from jaxproto.types import Array, Client, Data, Examples, Shard, Tree


class Evaluation(NamedTuple):
    """Inputs that all clients of a cohort share in an evaluation."""

    method: Method
    cohort: Cohort
    metrics: Sequence[Metric]  # of every rule
    down: Tree  # the broadcast, as clients have it
    examples: Examples


def evaluate_cohort(
    given: Evaluation, clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums per rule, metric and client: {rule: {metric: [R, ...]}}.

    Args:
      clients: that are evaluated, [R, ...].
      shards: their test examples.
    """
    method, cohort, metrics, down, examples = given

    def one(client, shard):
        data = Data(examples, shard)
        return clients_.score(method, cohort.net, down, client, data, Asked(metrics))

    return cohort.mode.each(one)(clients, shards)


def evaluate_network(
    given: Evaluation, rules: Sequence[str], clients: Client, test: Array | Shard
) -> dict[str, Tree]:
    """Evaluates a network shared by all clients, once per test example.

    Args:
      rules: that need no state of a client.
      clients: that keep no state.
      test: all examples, a batch a row [T, B]; or, where more than the accuracy is
        asked, the shards of clients, equal ones once.

    Returns:
      Which examples are right, {rule: {"accuracy": [T, B]}}; or the sums of each shard,
      as `evaluate_cohort`.
    """
    method, cohort, metrics, down, examples = given
    first = jax.tree.map(lambda a: a[:1], clients)
    stacked = cohort.persistence.restore(method, cohort.net, first)
    client = jax.tree.map(lambda a: a[0], stacked)

    def one(shard):
        every, data = Asked(metrics, rules), Data(examples, shard)
        return clients_.score(method, cohort.net, down, client, data, every)

    def batch(index_B):
        shown = Data(examples, Shard(index_B, jnp.int32(len(index_B))))
        ones = jnp.ones(len(index_B))
        given = batches.take(shown, jnp.arange(len(index_B)), ones)
        hits = clients_.hits(method, cohort.net, down, client, given)
        return {rule: {ACCURACY: hits[rule]} for rule in rules}

    if isinstance(test, Shard):
        return cohort.mode.each(one)(test)
    return lax.map(batch, test)
