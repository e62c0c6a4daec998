"""Evaluation of a cohort: sums of every rule and metric, client by client.

One program per architecture, as training (`federation.py`).
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto import batches, federation, rows
from jaxproto import client as clients_
from jaxproto.client import Asked
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.metrics import ACCURACY
from jaxproto.types import Array, Client, Data, Examples, Shard, Tree


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
    client = jax.tree.map(lambda a: a[0], federation.fresh(method, cohort, first))

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
