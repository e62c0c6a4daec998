"""Data of a federation of nodes, as each node and the server have them.

A node has its own examples and the agreement (`data_schema`); the server has no
examples. Both build the same experiment, with placeholders for examples of others.
"""

from typing import NamedTuple

import numpy as np

from jaxproto.data import text
from jaxproto.data.dataset import Dataset
from jaxproto.data.labels import names_of_classes
from jaxproto.data.partitions.partition import (
    FederationData,
    make_partition,
    split_each,
)
from jaxproto.data.registry import NODES, load
from jaxproto.errors import UserError
from jaxproto.nodes import data_schema
from jaxproto.nodes.data_schema import ClientSizes, NodeDescription, NodeSchema

ABSENT = ClientSizes(1, 1, ())  # placeholder for a client that never joined


class NodeData(NamedTuple):
    """Data of a node."""

    dataset: Dataset
    train: np.ndarray  # rows of the training examples
    test: np.ndarray  # rows of the test examples


def read(config, id: int, source: str) -> NodeData:
    """Reads the data of a node, and divides them unless they have a test part.

    Args:
      config: fields `data` of the federation.
      id: client id, which seeds the division together with `data.seed`.
      source: name of the data set, such as folder:PATH.
    """
    options = {key: config[key] for key in ("data_dir", "seed", "pixels", "columns")}
    dataset = load(source, **options)
    rows = np.arange(len(dataset.y), dtype=np.int32)
    train, test = rows[: dataset.train_size], rows[dataset.train_size :]
    if not len(test):
        rng = np.random.default_rng([config.seed, id])
        (train,), (test,) = split_each([rows], config.train_share, rng)
    if not len(train) or not len(test):
        raise UserError(
            f"client {id}: {source} gives {len(train)} training and {len(test)} test "
            f"examples at data.train_share={config.train_share}; it needs one of each."
        )
    return NodeData(dataset, train, test)


def describe_node(data: NodeData, min_texts: int) -> NodeDescription:
    """Describes the data of a node, with words of at least `min_texts` texts."""
    dataset = data.dataset
    if dataset.tokens:
        raise UserError(
            f"{dataset.name}: the inputs of a node are tokens of a vocabulary of its "
            "own, but all nodes need one. Save the texts themselves."
        )
    sizes = len(data.train), len(data.test)
    labels = dataset.class_names()
    if dataset.x.dtype.kind not in "UT":
        shape = tuple(dataset.x.shape[1:])
        return NodeDescription(dataset.x.dtype.name, shape, labels, *sizes, {})
    words = text.frequent_words(
        text.tokenize(dataset.x.tolist()), data.train, min_texts
    )
    return NodeDescription(data_schema.TEXTS, (), labels, *sizes, words)


def node_view(
    schema: NodeSchema, id: int, data: NodeData, max_len: int
) -> FederationData:
    """Returns the data as a node has them; rows of other clients are placeholders."""
    dataset = data.dataset
    if schema.tokens:
        alone = make_partition([data.train], [data.test])
        dataset = text.encode(dataset, alone, max_len=max_len, known=schema.tokens)
    number = [schema.labels.index(label) for label in dataset.class_names()]
    dataset = dataset._replace(
        y=np.asarray(number, np.int32)[dataset.y],
        num_classes=len(schema.labels),
        classes=names_of_classes(schema.labels),
        domain=None,
    )
    sizes = [schema.clients.get(i, ABSENT) for i in range(schema.number)]
    train = [np.zeros(size.train, np.int32) for size in sizes]
    test = [np.zeros(1, np.int32) for _ in sizes]
    train[id], test[id] = data.train, data.test
    examples = data_schema.num_train_examples(schema)
    return FederationData(dataset, make_partition(train, test), examples)


def server_view(schema: NodeSchema, max_len: int) -> FederationData:
    """Returns the data as the server has them: one empty example per class.

    The rows of a client are as many as its examples. They spread evenly over its
    classes, as the server does not know its class counts.
    """
    shape = (max_len,) if schema.tokens else schema.shape
    kind = np.int32 if schema.tokens else np.dtype(schema.kind)
    number = len(schema.labels)
    x, y = np.zeros((number, *shape), kind), np.arange(number, dtype=np.int32)
    classes = names_of_classes(schema.labels)
    dataset = Dataset(
        NODES, x, y, number, number, classes=classes, tokens=schema.tokens
    )
    joined, ids = {**schema.clients, **schema.late}, range(schema.number)
    row = {label: c for c, label in enumerate(schema.labels)}
    rows_K = [[row[n] for n in joined.get(i, ABSENT).labels] or [0] for i in ids]
    train = [schema.clients.get(i, ABSENT).train for i in ids]
    test = [joined.get(i, ABSENT).test for i in ids]
    parts = ([*map(np.resize, rows_K, sizes)] for sizes in (train, test))
    examples = data_schema.num_train_examples(schema)
    return FederationData(dataset, make_partition(*parts), examples)
