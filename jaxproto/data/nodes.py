"""The data of a federation whose nodes have their own: each side's part of them.

A node has its examples and knows the agreement; the server has no example. Both build
the same experiment from that, whose rows nobody else ever looks at.
"""

from typing import NamedTuple

import numpy as np

from jaxproto.data import node_schema, text
from jaxproto.data.dataset import Dataset
from jaxproto.data.node_schema import ClientSizes, NodeDescription, NodeSchema
from jaxproto.data.partitions.registry import Partition, make_partition, split_each
from jaxproto.data.registry import NODES, load
from jaxproto.errors import UserError

ABSENT = ClientSizes(1, 1, ())  # who was never there; nothing depends on it


class NodeData(NamedTuple):
    """The data of a node."""

    dataset: Dataset
    train: np.ndarray  # rows
    test: np.ndarray


def read(config, id: int, source: str) -> NodeData:
    """Reads a node's data, and divides them unless they have a test part.

    Args:
      config: the fields `data` of the federation.
      id: of the client, which with `data.seed` says how its examples are divided.
      source: such as folder:PATH.

    Raises:
      UserError: there are none, or too few.
    """
    given = {"data_dir": config.data_dir or None, "pixels": config.pixels}
    dataset = load(source, seed=config.seed, **given)
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
    """What a node tells of its data.

    Args:
      min_texts: training texts that a word must be in to be told.
    """
    dataset = data.dataset
    sizes = len(data.train), len(data.test)
    labels = node_schema.names(dataset)
    if dataset.x.dtype.kind not in "UT":
        shape = tuple(dataset.x.shape[1:])
        return NodeDescription(dataset.x.dtype.name, shape, labels, *sizes, {})
    words = text.frequent_words(
        text.tokenize(dataset.x.tolist()), data.train, min_texts
    )
    return NodeDescription(node_schema.TEXTS, (), labels, *sizes, words)


def node_view(
    schema: NodeSchema, id: int, data: NodeData, max_len: int
) -> tuple[Dataset, Partition]:
    """The data as a node has them: rows of its own, and numbers of the others' rows."""
    dataset = data.dataset
    if schema.tokens:
        alone = make_partition([data.train], [data.test])
        dataset = text.encode(dataset, alone, max_len=max_len, known=schema.tokens)
    place = [schema.labels.index(label) for label in node_schema.names(dataset)]
    dataset = dataset._replace(
        y=np.asarray(place, np.int32)[dataset.y],
        num_classes=len(schema.labels),
        classes=_classes(schema),
        domain=None,
    )
    sizes = [schema.clients.get(i, ABSENT) for i in range(schema.number)]
    train, test = _nobodys([of.train for of in sizes]), _nobodys([1] * schema.number)
    train[id], test[id] = data.train, data.test
    return dataset, make_partition(train, test)


def server_view(schema: NodeSchema, max_len: int) -> tuple[Dataset, Partition]:
    """The data as the server knows them: an empty example of each class.

    A client's rows are as many as it has, and of the classes that it has: in equal
    numbers, as the server does not know them.
    """
    shape = (max_len,) if schema.tokens else schema.shape
    kind = np.int32 if schema.tokens else np.dtype(schema.kind)
    number = len(schema.labels)
    x, y = np.zeros((number, *shape), kind), np.arange(number, dtype=np.int32)
    dataset = Dataset(
        NODES,
        x,
        y,
        number,
        number,
        classes=_classes(schema),
        tokens=schema.tokens,
    )
    whole, order = {**schema.clients, **schema.late}, range(schema.number)
    label = {name: c for c, name in enumerate(schema.labels)}
    classes = [[label[n] for n in whole.get(i, ABSENT).labels] or [0] for i in order]
    train = [schema.clients.get(i, ABSENT).train for i in order]
    test = [whole.get(i, ABSENT).test for i in order]
    parts = ([*map(np.resize, classes, sizes)] for sizes in (train, test))
    return dataset, make_partition(*parts)


def _classes(schema: NodeSchema) -> tuple[str, ...]:
    numbers = schema.labels == tuple(map(str, range(len(schema.labels))))
    return () if numbers else schema.labels


def _nobodys(sizes) -> list[np.ndarray]:
    return [np.zeros(size, np.int32) for size in sizes]
