"""Evaluation of a cohort: sums of every rule and metric, client by client.

One program per architecture, as training (`federation.py`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto import batches
from jaxproto.client import EvaluationSpec, correct_predictions, evaluate_client
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.metrics import ACCURACY, Metric
from jaxproto.types import Client, Data, Examples, Shard, Tree


class EvaluationInputs(NamedTuple):
    """Inputs that all clients of a cohort share in an evaluation."""

    method: Method
    cohort: Cohort
    metrics: Sequence[Metric]  # of every rule
    down: Tree  # the broadcast, as clients have it
    examples: Examples
    rules: Sequence[str] = ()  # () is every rule


def evaluate_cohort(
    inputs: EvaluationInputs, clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums per rule, metric and client: {rule: {metric: [R, ...]}}.

    Args:
      clients: that are evaluated, [R, ...].
      shards: their test examples.
    """
    method, cohort, metrics, down, examples, rules = inputs
    asked = EvaluationSpec(metrics, rules)

    def one(client, shard):
        data = Data(examples, shard)
        return evaluate_client(method, cohort.net, down, client, data, asked)

    begin = cohort.persistence.restore(method, cohort.net, clients)
    return cohort.mode.each(one)(begin, shards)


def evaluate_shared(
    inputs: EvaluationInputs, clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums of a network shared by all clients, as `evaluate_cohort`.

    Args:
      inputs: with rules that need no state of a client.
      clients: that keep no state.
      shards: test examples of clients, equal ones once.
    """
    method, cohort, metrics, down, examples, rules = inputs
    client, asked = _any_client(inputs, clients), EvaluationSpec(metrics, rules)

    def one(shard):
        data = Data(examples, shard)
        return evaluate_client(method, cohort.net, down, client, data, asked)

    return cohort.mode.each(one)(shards)


def evaluate_examples(
    inputs: EvaluationInputs, clients: Client, batches_TB: Shard
) -> dict[str, Tree]:
    """Returns which test examples a shared network gets right, each computed once.

    Args:
      given, clients: as in `evaluate_shared`.
      batches_TB: all examples, a batch a row.

    Returns:
      {rule: {"accuracy": [T, B]}}.
    """
    method, cohort, _, down, examples, rules = inputs
    client = _any_client(inputs, clients)

    def batch(index_B):
        data = Data(examples, Shard(index_B, jnp.int32(len(index_B))))
        ones = jnp.ones(len(index_B))
        inputs = batches.gather_examples(data, jnp.arange(len(index_B)), ones)
        hits = correct_predictions(method, cohort.net, down, client, inputs)
        return {rule: {ACCURACY: hits[rule]} for rule in rules}

    return lax.map(batch, jnp.asarray(batches_TB.index))


def _any_client(inputs: EvaluationInputs, clients: Client) -> Client:
    """Returns a client of which rules read nothing."""
    first, cohort = jax.tree.map(lambda a: a[:1], clients), inputs.cohort
    stacked = cohort.persistence.restore(inputs.method, cohort.net, first)
    return jax.tree.map(lambda a: a[0], stacked)


Rows = Sequence[np.ndarray]  # of the examples, for each client


class Scoring(NamedTuple):
    """How the clients of a cohort are evaluated."""

    tests: Callable[[Rows], Shard]  # test examples -> what calls go over
    evaluate: Callable[[EvaluationInputs, Client, Shard], dict[str, Tree]]
    by_client: Callable[[Rows, dict], dict]  # sums of all calls -> of each client
    rules: tuple[str, ...] = ()  # that are computed; () is every rule


def distinct(rows: Rows) -> tuple[list[np.ndarray], list[int]]:
    """Returns the different rows among those of clients, and which each client has."""
    found = {own.tobytes(): own for own in map(np.asarray, rows)}
    place = {key: i for i, key in enumerate(found)}
    return [*found.values()], [place[np.asarray(own).tobytes()] for own in rows]


def in_batches(rows: Rows) -> Shard:
    """Returns the examples of all clients once, a batch a row."""
    one = same_rows(rows)
    every = np.asarray(rows[0] if one else np.unique(np.concatenate(rows)))
    size = min(len(every), batches.EVAL_BATCH_SIZE)
    return batches.tables([every[i : i + size] for i in range(0, len(every), size)])


def hits_of(rows: Rows, hit_T: np.ndarray) -> np.ndarray:
    """Returns the correct predictions of each client [K].

    Args:
      rows: examples of each client.
      hit_T: whether each example of `in_batches` was right, and padding after them.
    """
    if same_rows(rows):
        return np.full(len(rows), hit_T[: len(rows[0])].sum())
    every = np.unique(np.concatenate(rows))
    right = np.zeros(every[-1] + 1, np.int64)
    right[every] = hit_T[: len(every)]
    return np.array([right[own].sum() for own in rows])


def same_rows(rows: Rows) -> bool:
    """Returns whether all clients have the same examples, as an official test part."""
    first = rows[0]
    return all(own is first or np.array_equal(own, first) for own in rows[1:])


def _of_equal(rows: Rows, sums: dict) -> dict:
    _, place = distinct(rows)
    return jax.tree.map(lambda a: a[np.array(place)], sums)


def _of_examples(rows: Rows, hits: dict) -> dict:
    size_K = np.array([len(own) for own in rows])
    right = {rule: hits_of(rows, of[ACCURACY].reshape(-1)) for rule, of in hits.items()}
    return {rule: {ACCURACY: (right_K, size_K)} for rule, right_K in right.items()}


BY_CLIENT = Scoring(batches.tables, evaluate_cohort, lambda rows, sums: sums)
# of a network shared by all clients: equal ones once, or for accuracy, examples once
BY_EQUAL_CLIENTS = Scoring(
    lambda rows: batches.tables(distinct(rows)[0]), evaluate_shared, _of_equal
)
BY_EXAMPLE = Scoring(in_batches, evaluate_examples, _of_examples)
