"""Partitioners of Flower Datasets: `data.partition=flwr:CLASS,key=value,...`.

A partitioner gets a table with the columns `label` (classes) and `index` (rows),
shuffled as in Flower's `FederatedDataset`. It also gets the arguments of the text and,
if it has such parameters, `num_partitions` (the number of clients), `partition_by`
("label") and `seed` (drawn from the seed of the partition).
"""

import ast
import hashlib
import inspect

import numpy as np

from jaxproto import errors
from jaxproto.data.partitions.label_skew import Scheme

EXTRA = "pip install 'jaxproto[flower-datasets]'"


def flower_scheme(text: str) -> Scheme:
    """Returns the scheme of a text such as `DirichletPartitioner,alpha=0.3`."""
    name, *parts = text.split(",")
    pairs = (argument.partition("=") for argument in _arguments(parts))
    arguments = {key.strip(): _value(text, key, value) for key, _, value in pairs}
    make = _partitioner(name)

    def assign(y_N, num_classes, clients, rng):
        defaults = {"num_partitions": clients, "partition_by": "label"}
        defaults["seed"] = int(rng.integers(2**31))
        parameters = inspect.signature(make).parameters
        options = {k: v for k, v in defaults.items() if k in parameters} | arguments
        try:
            client_rows = _rows(make(**options), y_N, rng.permutation(len(y_N)))
        except Exception as error:  # libraries raise any kind
            raise errors.UserError(
                f"flwr:{text} fails: {errors.describe_failure(error)}. {name} takes "
                f"{', '.join(parameters)}."
            ) from error
        if len(client_rows) != clients:
            raise errors.UserError(
                f"flwr:{text} makes {len(client_rows)} partitions, but data.clients is "
                f"{clients}. Set data.clients to {len(client_rows)}.",
                advice=[{"data.clients": len(client_rows)}],
            )
        return client_rows

    return Scheme(assign)


def _arguments(parts: list[str]) -> list[str]:
    """Returns arguments; joins parts that were split at the commas of a list."""
    arguments: list[str] = []
    for part in parts:
        in_list = arguments and arguments[-1].count("[") > arguments[-1].count("]")
        if in_list:
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
    partitions = map(partitioner.load_partition, range(partitioner.num_partitions))
    return [np.asarray(partition["index"], int) for partition in partitions]
