"""Partitioners of Flower Datasets: `data.partition=flwr:CLASS,key=value,...`.

A partitioner sees a column `label` with the classes, and `index` with the rows, in a
random order as those of Flower's `FederatedDataset`. Beside the arguments given, it
gets those of `num_partitions` (the number of clients), `partition_by` ("label") and
`seed` (drawn from that of the partition) that it takes.
"""

import ast
import hashlib
import inspect

import numpy as np

from jaxproto import errors
from jaxproto.data.partitions.label_skew import Scheme

EXTRA = "pip install 'jaxproto[flower-datasets]'"


def flower_scheme(text: str) -> Scheme:
    """Returns the scheme of a partitioner.

    Args:
      text: name of its class, and arguments: `DirichletPartitioner,alpha=0.3`.
    """
    name, *given = text.split(",")
    named = (argument.partition("=") for argument in _joined(given))
    arguments = {key.strip(): _value(text, key, value) for key, _, value in named}
    make = _partitioner(name)

    def assign(y_N, num_classes, clients, rng):
        own = {"num_partitions": clients, "partition_by": "label"}
        own["seed"] = int(rng.integers(2**31))
        takes = inspect.signature(make).parameters
        every = {k: v for k, v in own.items() if k in takes} | arguments
        try:
            client_rows = _rows(make(**every), y_N, rng.permutation(len(y_N)))
        except Exception as error:  # a library's: any kind
            raise errors.UserError(
                f"flwr:{text} fails: {errors.describe_failure(error)}. {name} takes "
                f"{', '.join(takes)}."
            ) from error
        if len(client_rows) != clients:
            raise errors.UserError(
                f"flwr:{text} makes {len(client_rows)} partitions, but data.clients is "
                f"{clients}. Set data.clients to {len(client_rows)}."
            )
        return client_rows

    return Scheme(assign)


def _joined(given: list[str]) -> list[str]:
    """Returns arguments, with the commas inside of lists."""
    arguments: list[str] = []
    for part in given:
        inside = arguments and arguments[-1].count("[") > arguments[-1].count("]")
        if inside:
            arguments[-1] += f",{part}"
        else:
            arguments.append(part)
    return arguments


def _value(text, key, value):
    """Returns an argument as a number, a list or, if it is neither, a text."""
    if not value:
        raise errors.UserError(
            f"flwr:{text}: argument {key!r} has no value. Write it as key=value, such "
            "as flwr:DirichletPartitioner,alpha=0.3."
        )
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _partitioner(name):
    """Returns the class of a partitioner."""
    try:
        from flwr_datasets import partitioner
    except ImportError as error:
        raise errors.UserError(
            f"flwr:{name} needs the package {error.name!r}, which is missing. Install "
            f"it: {EXTRA}"
        ) from error
    names = [n for n in dir(partitioner) if n.endswith("Partitioner")]
    return getattr(partitioner, errors.choose_from("partitioner", name, names))


def _rows(partitioner, y_N, order_N) -> list[np.ndarray]:
    """Returns the rows of each partition of the examples in an order [N]."""
    import datasets
    import pyarrow

    table = pyarrow.table({"index": order_N, "label": y_N[order_N]})
    digest = hashlib.sha256(order_N.tobytes() + y_N.tobytes()).hexdigest()
    partitioner.dataset = datasets.Dataset(table, fingerprint=digest)
    every = map(partitioner.load_partition, range(partitioner.num_partitions))
    return [np.asarray(partition["index"], int) for partition in every]
