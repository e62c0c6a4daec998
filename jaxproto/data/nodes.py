"""The data of a federation whose nodes have their own: each side's part of them.

A node has its examples and knows the agreement; the server has no example. Both build
the same experiment from that, whose rows nobody else ever looks at.
"""

from typing import NamedTuple

import numpy as np

from jaxproto.data import node_schema, text
from jaxproto.data import registry as datasets
from jaxproto.data.dataset import Dataset
from jaxproto.data.node_schema import Agreement, Description, Sizes
from jaxproto.data.partitions import registry as schemes
from jaxproto.data.partitions.registry import Partition
from jaxproto.errors import UserError

ABSENT = Sizes(1, 1, ())  # who was never there; nothing depends on it


class Own(NamedTuple):
    """The data of a node."""

    dataset: Dataset
    train: np.ndarray  # rows
    test: np.ndarray


def read(config, id: int, source: str) -> Own:
    """Reads a node's data, and divides them unless they have a test part.

    Args:
      config: the fields `data` of the federation.
      id: of the client, which with `data.seed` says how its examples are divided.
      source: such as folder:PATH.

    Raises:
      UserError: there are none, or too few.
    """
    given = {"data_dir": config.data_dir or None, "pixels": config.pixels}
    dataset = datasets.load(source, seed=config.seed, **given)
    rows = np.arange(len(dataset.y), dtype=np.int32)
    train, test = rows[: dataset.train_size], rows[dataset.train_size :]
    if not len(test):
        rng = np.random.default_rng([config.seed, id])
        (train,), (test,) = schemes.split_each([rows], config.train_share, rng)
    if not len(train) or not len(test):
        raise UserError(
            f"client {id}: {source} gives {len(train)} training and {len(test)} test "
            f"examples at data.train_share={config.train_share}; it needs one of each."
        )
    return Own(dataset, train, test)


def describe(own: Own, min_texts: int) -> Description:
    """What a node tells of its data.

    Args:
      min_texts: training texts that a word must be in to be told.
    """
    dataset = own.dataset
    sizes = len(own.train), len(own.test)
    labels = node_schema.names(dataset)
    if dataset.x.dtype.kind not in "UT":
        shape = tuple(dataset.x.shape[1:])
        return Description(dataset.x.dtype.name, shape, labels, *sizes, {})
    words = text.common(text.find(dataset.x.tolist()), own.train, min_texts)
    return Description(node_schema.TEXTS, (), labels, *sizes, words)


def of_node(
    made: Agreement, id: int, own: Own, max_len: int
) -> tuple[Dataset, Partition]:
    """The data as a node has them: rows of its own, and numbers of the others' rows."""
    dataset = own.dataset
    if made.tokens:
        alone = schemes.made([own.train], [own.test])
        dataset = text.encode(dataset, alone, max_len=max_len, known=made.tokens)
    place = [made.labels.index(label) for label in node_schema.names(dataset)]
    dataset = dataset._replace(
        y=np.asarray(place, np.int32)[dataset.y],
        num_classes=len(made.labels),
        classes=_classes(made),
        domain=None,
    )
    sizes = [made.clients.get(i, ABSENT) for i in range(made.number)]
    train, test = _nobodys([of.train for of in sizes]), _nobodys([1] * made.number)
    train[id], test[id] = own.train, own.test
    return dataset, schemes.made(train, test)


def of_server(made: Agreement, max_len: int) -> tuple[Dataset, Partition]:
    """The data as the server knows them: an empty example of each class.

    A client's rows are as many as it has, and of the classes that it has: in equal
    numbers, as the server does not know them.
    """
    shape = (max_len,) if made.tokens else made.shape
    kind = np.int32 if made.tokens else np.dtype(made.kind)
    number = len(made.labels)
    x, y = np.zeros((number, *shape), kind), np.arange(number, dtype=np.int32)
    dataset = Dataset(
        datasets.NODES, x, y, number, number, classes=_classes(made), tokens=made.tokens
    )
    whole, order = {**made.clients, **made.late}, range(made.number)
    label = {name: c for c, name in enumerate(made.labels)}
    classes = [[label[n] for n in whole.get(i, ABSENT).labels] or [0] for i in order]
    train = [made.clients.get(i, ABSENT).train for i in order]
    test = [whole.get(i, ABSENT).test for i in order]
    parts = ([*map(np.resize, classes, sizes)] for sizes in (train, test))
    return dataset, schemes.made(*parts)


def _classes(made: Agreement) -> tuple[str, ...]:
    numbers = made.labels == tuple(map(str, range(len(made.labels))))
    return () if numbers else made.labels


def _nobodys(sizes) -> list[np.ndarray]:
    return [np.zeros(size, np.int32) for size in sizes]
