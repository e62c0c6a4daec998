"""Evaluation of a cohort: sums per prediction rule, metric and client.

The rules are those of `Method.predict`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto import wire
from jaxproto.core import batches
from jaxproto.core.method import Method
from jaxproto.core.types import Client, Data, Examples, Shard, Tree
from jaxproto.metrics.classification import ACCURACY, correct
from jaxproto.metrics.metric import Metric
from jaxproto.round.cohort import Cohort


class EvaluationInputs(NamedTuple):
    """Inputs that all clients of a cohort share in an evaluation."""

    method: Method
    cohort: Cohort
    metrics: Sequence[Metric]  # of every rule
    down: Tree  # the broadcast, as clients have it
    examples: Examples
    rules: Sequence[str] = ()  # () is every rule


def evaluate_client(
    inputs: EvaluationInputs, client: Client, shard: Shard
) -> dict[str, Tree]:
    """Returns the metrics' sums over a client's examples: {rule: {metric: tree}}."""
    down = wire.for_client(inputs.down, client.id)

    def f(batch):
        by_rule = inputs.method.predict(inputs.cohort.net, client, batch.x, down)
        return {
            rule: {
                metric.name: metric.sums(scores, batch.y, batch.mask)
                for metric in inputs.metrics
            }
            for rule, scores in by_rule.items()
            if rule in (inputs.rules or by_rule)
        }

    return batches.sum_over_batches(f, Data(inputs.examples, shard))


def evaluate_cohort(
    inputs: EvaluationInputs, clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums per rule, metric and client: {rule: {metric: [R, ...]}}.

    Args:
      clients: Clients to evaluate [R, ...].
      shards: Test examples of the clients [R, M], or several splits of each [R, S, M];
        sums then are [R, S, ...].
    """

    def one(client, shard):
        of_split = partial(evaluate_client, inputs, client)
        return lax.map(of_split, shard) if shard.size.ndim else of_split(shard)

    cohort = inputs.cohort
    restored = cohort.kept_state.restore(inputs.method, cohort.net, clients)
    return cohort.mode.each(one)(restored, shards)


def evaluate_shared(
    inputs: EvaluationInputs, clients: Client, shards: Shard
) -> dict[str, Tree]:
    """Returns sums of a shared network: {rule: {metric: [R, ...]}}.

    Args:
      inputs: Inputs with rules that need no state of a client.
      clients: Clients that keep no state.
      shards: Distinct sets of test examples [R, ...].
    """
    client = _any_client(inputs, clients)
    return inputs.cohort.mode.each(partial(evaluate_client, inputs, client))(shards)


def evaluate_examples(
    inputs: EvaluationInputs, clients: Client, batches_TB: Shard
) -> dict[str, Tree]:
    """Returns which test examples a shared network classifies correctly, each once.

    Args:
      inputs, clients: As in `evaluate_shared`.
      batches_TB: All test examples, one batch per row.

    Returns:
      {rule: {"accuracy": [T, B]}}.
    """
    method, cohort, _, down, examples, rules = inputs
    client = _any_client(inputs, clients)

    def hits_of_batch(index_B):
        data = Data(examples, Shard(index_B, jnp.int32(len(index_B))))
        ones = jnp.ones(len(index_B))
        batch = batches.gather_examples(data, jnp.arange(len(index_B)), ones)
        own = wire.for_client(down, client.id)
        by_rule = method.predict(cohort.net, client, batch.x, own)
        return {rule: {ACCURACY: correct(by_rule[rule], batch.y)} for rule in rules}

    return lax.map(hits_of_batch, jnp.asarray(batches_TB.index))


def _any_client(inputs: EvaluationInputs, clients: Client) -> Client:
    """Returns a client with zeros as state, for rules that do not read it."""
    first, cohort = jax.tree.map(lambda a: a[:1], clients), inputs.cohort
    stacked = cohort.kept_state.restore(inputs.method, cohort.net, first)
    return jax.tree.map(lambda a: a[0], stacked)


Rows = Sequence[np.ndarray]  # example numbers of each client
Splits = Sequence[Rows]  # test examples and, if there are any, validation examples


class Scoring(NamedTuple):
    """Functions that evaluate the clients of a cohort."""

    tests: Callable[[Splits], Shard]  # examples to evaluate -> inputs of the calls
    evaluate: Callable[[EvaluationInputs, Client, Shard], dict[str, Tree]]
    by_client: Callable[
        [Splits, dict], dict
    ]  # sums of all calls -> sums of all clients
    # [S * K, ...], split after split
    rules: tuple[str, ...] = ()  # that are computed; () is every rule


def tables_of_splits(splits: Splits) -> Shard:
    """Returns the index tables of clients: [K, M], or [K, S, M] of several splits."""
    shard = batches.tables(joined(splits))
    if len(splits) == 1:
        return shard

    def by_client(a):
        return a.reshape(len(splits), -1, *a.shape[1:]).swapaxes(0, 1)

    return jax.tree.map(by_client, shard)


def joined(splits: Splits) -> Rows:
    """Returns the examples of each client, split after split."""
    return [row for rows in splits for row in rows]


def distinct(rows: Rows) -> tuple[list[np.ndarray], list[int]]:
    """Returns the distinct sets of examples, and the number of each client's set."""
    sets = {row.tobytes(): row for row in map(np.asarray, rows)}
    place = {key: i for i, key in enumerate(sets)}
    return [*sets.values()], [place[np.asarray(row).tobytes()] for row in rows]


def in_batches(rows: Rows) -> Shard:
    """Returns the examples of all clients once, one batch per row."""
    index = np.asarray(rows[0] if same_rows(rows) else all_examples(rows))
    size = min(len(index), batches.EVAL_BATCH_SIZE)
    return batches.tables([index[i : i + size] for i in range(0, len(index), size)])


def hits_of(rows: Rows, hit_T: np.ndarray) -> np.ndarray:
    """Returns the number of correct predictions of each client [K].

    Args:
      rows: Example numbers of each client.
      hit_T: Whether each example of `in_batches` is predicted correctly, then padding.
    """
    if same_rows(rows):
        return np.full(len(rows), hit_T[: len(rows[0])].sum())
    index = all_examples(rows)
    right = np.zeros(index[-1] + 1, np.int64)
    right[index] = hit_T[: len(index)]
    return np.array([right[row].sum() for row in rows])


def all_examples(rows: Rows) -> np.ndarray:
    """Returns the examples of all clients once, sorted."""
    arrays = {id(row): row for row in rows}  # clients may share their test examples
    return np.unique(np.concatenate([*arrays.values()]))


def same_rows(rows: Rows) -> bool:
    """Returns whether all clients have the same examples (an official test split)."""
    return all(row is rows[0] or np.array_equal(row, rows[0]) for row in rows[1:])


def _sums_of_splits(splits: Splits, sums: dict) -> dict:
    if len(splits) == 1:
        return sums
    return jax.tree.map(lambda a: a.swapaxes(0, 1).reshape(-1, *a.shape[2:]), sums)


def _sums_of_distinct(splits: Splits, sums: dict) -> dict:
    place = np.array(distinct(joined(splits))[1])
    return jax.tree.map(lambda a: a[place], sums)


def _sums_of_hits(splits: Splits, hits: dict) -> dict:
    rows = joined(splits)
    size_K = np.array([len(row) for row in rows])

    def sums(hit_TB):
        return hits_of(rows, hit_TB.reshape(-1)), size_K

    return {rule: {ACCURACY: sums(hit[ACCURACY])} for rule, hit in hits.items()}


BY_CLIENT = Scoring(tables_of_splits, evaluate_cohort, _sums_of_splits)
# For a network shared by all clients: each distinct test set once, or each example once
# if accuracy is the only metric.
BY_EQUAL_CLIENTS = Scoring(
    lambda splits: batches.tables(distinct(joined(splits))[0]),
    evaluate_shared,
    _sums_of_distinct,
)
BY_EXAMPLE = Scoring(
    lambda splits: in_batches(joined(splits)), evaluate_examples, _sums_of_hits
)
