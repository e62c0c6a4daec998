"""Partitions: rows of the clients, divided into training, validation and test."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.data.dataset import Dataset
from jaxproto.data.domains import domain_ids
from jaxproto.data.partitions import sizes
from jaxproto.data.partitions.label_skew import Rng, Scheme

HELD_OUT = 2  # stream of the data seed


class Partition(NamedTuple):
    """Rows of `Dataset.x` per client, in the order of unshuffled batches."""

    train: tuple[np.ndarray, ...]  # K arrays of int32
    test: tuple[np.ndarray, ...]  # K arrays of int32
    validation: tuple[np.ndarray, ...] = ()  # K arrays of int32, or none at all


class FederationData(NamedTuple):
    """A data set and its partition."""

    dataset: Dataset
    partition: Partition
    num_examples: int  # training examples of all clients


def partition_dataset(
    dataset: Dataset,
    scheme: Scheme,
    *,
    clients: int,
    pooled: bool = True,
    train_share: float = 0.75,
    seed: int = 1,
) -> Partition:
    """Divides a data set over clients, and each client's examples into train and test.

    Args:
      scheme: division over clients, such as `dirichlet(0.1)`.
      pooled: True pools the official parts and divides every client's examples by
        `train_share` (docs/decisions.md#pool). False divides the official training part
        and tests every client on the whole official test part.
      train_share: share of a client's examples to train on if pooled; 0.75 in all
        papers.
      seed: seed of the partition; models have another seed.
    """
    rng = scheme.make_rng(seed)
    official = None if pooled else official_test(dataset)
    y_N, num_classes = dataset.y, dataset.num_classes
    if scheme.by_source:
        y_N, num_classes = domain_ids(dataset)
    size = len(y_N) - dataset.foreign if pooled else dataset.train_size
    smallest = sizes.smallest_client(train_share) if pooled else 1
    sizes.check_enough_examples(size, clients, scheme, smallest)
    client_rows = scheme.assign(y_N[:size], num_classes, clients, rng)
    train, test = split_each(client_rows, train_share if pooled else 1, rng)
    test = test if official is None else [official] * clients
    sizes.check_none_is_empty(train, test, scheme, train_share)
    return make_partition(train, test)


def make_partition(
    train: Sequence[np.ndarray], test: Sequence[np.ndarray]
) -> Partition:
    """Makes a `Partition` of rows."""
    return Partition(
        *(tuple(np.asarray(rows, np.int32) for rows in part) for part in (train, test))
    )


def split_each(
    client_rows: Sequence[np.ndarray], train_share: float, rng: Rng
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Divides the rows of each client, in the order of clients, into train and test.

    Bit-equal to scikit-learn's train_test_split(train_size=...) on this stream.
    """
    train, test = [], []
    for rows in client_rows:
        order = rows[rng.permutation(len(rows))]
        num_test = len(rows) - math.floor(train_share * len(rows))
        test.append(order[:num_test])
        train.append(order[num_test:])
    return train, test


def official_rows(dataset: Dataset) -> np.ndarray:
    """Returns the rows of the official test part, without public examples."""
    rows = np.arange(dataset.train_size, len(dataset.y), dtype=np.int32)
    return np.setdiff1d(rows, () if dataset.public is None else dataset.public)


def official_test(dataset: Dataset) -> np.ndarray:
    """Returns `official_rows`; raises UserError if there are none."""
    rows = official_rows(dataset)
    if len(rows) == 0:
        raise errors.UserError(
            f"data set {dataset.name!r} has no official test part (all "
            f"{dataset.train_size} examples are for training). Set data.pool=True: it "
            "splits every client's examples.",
            advice=[{"data.pool": True}],
        )
    return rows


def partition_lines(dataset: Dataset, divided: Partition) -> str:
    """Formats a partition as a file for `data.partition=file:PATH`.

    Rows stay in the order of unshuffled batches. The test part is left out if every
    client tests on the official one, as readers add that for `data.pool=False`.
    """
    parts = {"train": divided.train, "validation": divided.validation}
    official = official_rows(dataset)
    if not all(np.array_equal(rows, official) for rows in divided.test):
        parts["test"] = divided.test
    lines = ["client,index,part"]
    for part, rows_K in parts.items():
        for k, rows in enumerate(rows_K):
            lines += [f"{k},{row},{part}" for row in rows.tolist()]
    return "\n".join([*lines, ""])


def hold_out(parts: Partition, share: float, seed: int) -> Partition:
    """Moves a share of each client's training rows to its validation part.

    Of n rows of client k, floor(share * n) move: none if n < 1 / share, never all. The
    choice depends only on the set of these rows, `seed` and k. The other rows keep
    their order.
    """
    if not share:
        return parts
    train, validation = [], []
    for k, rows in enumerate(parts.train):
        rng = np.random.default_rng([seed, HELD_OUT, k])
        drawn = rng.permutation(np.sort(rows))[: math.floor(share * len(rows))]
        is_held = np.isin(rows, drawn)
        train.append(rows[~is_held])
        validation.append(rows[is_held])
    return Partition(tuple(train), parts.test, tuple(validation))


def centralise(parts: Partition) -> Partition:
    """Gives all training rows to client 0; the other clients have none."""
    rest = (parts.train[0][:0],) * (len(parts.train) - 1)
    return parts._replace(train=(np.concatenate(parts.train), *rest))
