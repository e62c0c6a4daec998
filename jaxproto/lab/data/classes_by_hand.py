"""Partitions by classes that a user writes: `data.partition=classes:0,1;2,3`.

Clients are separated by semicolons, and the classes of a client, by their names, by
commas. `classes:FILE.csv` has the columns client (from 0) and class, a line for each
pair. Clients of a class share its examples equally, as in the partition `pathological`;
examples of classes that nobody has belong to no client.
"""

import os

import numpy as np
import pandas as pd

from jaxproto import errors
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions import label_skew, public_examples
from jaxproto.data.partitions.partition import Partition
from jaxproto.io import atomic

COLUMNS = ("client", "class")


def load(text: str, dataset: Dataset, *, clients: int, **options) -> Partition:
    """Divides a data set by the classes of each client.

    Args:
      text: classes, or a file of them.
      clients: number of clients, as many as `text` has.
      **options: as in `partition.partition_dataset`.
    """
    what = f"classes:{text}"
    is_file = text.endswith(".csv")
    names_K = _read(what, text) if is_file else [c.split(",") for c in text.split(";")]
    if len(names_K) != clients:
        raise errors.UserError(
            f"{what} has {len(names_K)} clients, but data.clients is {clients}. Set "
            f"data.clients to {len(names_K)}.",
            advice=[{"data.clients": len(names_K)}],
        )
    owns_KC = _owners(what, names_K, dataset)

    def assign(y_N, num_classes, clients, rng):
        _check_present(what, owns_KC, y_N, dataset)
        return label_skew.share_equally(y_N, owns_KC, rng)

    scheme = label_skew.Scheme(assign)
    return public_examples.divide(dataset, scheme, clients=clients, **options)


def _read(what, path):
    """Returns the names of the classes of each client in a file."""
    path = os.path.expanduser(path)
    atomic.check_regular(what, path)
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        pairs = frame[[*COLUMNS]].apply(lambda column: column.str.strip())
        client_R = pairs["client"].astype(int)
    except (OSError, ValueError, KeyError, OverflowError) as error:
        raise errors.UserError(
            f"{what} cannot be read ({errors.message_of(error)}). Give a csv file with "
            f"the columns {' and '.join(COLUMNS)}, clients numbered from 0."
        ) from error
    rows = pairs["class"].groupby(client_R).agg(list)
    if [*rows.index] != [*range(len(rows))]:
        raise errors.UserError(
            f"{what}: clients are {errors.first_few(rows.index)}. Number them from 0 "
            "without gaps."
        )
    return [*rows]


def _owners(what, names_K, dataset):
    """Returns which client has which class [K, C]."""
    class_id = {name: c for c, name in enumerate(dataset.class_names())}
    owns_KC = np.zeros((len(names_K), dataset.num_classes), bool)
    for k, names in enumerate(names_K):
        for name in map(str.strip, names):
            if not name:
                raise errors.UserError(
                    f"{what}: client {k} has an empty class. Write the classes of a "
                    "client with commas, and semicolons between clients: 0,1;2,3."
                )
            c = class_id[errors.choose_from(f"class of client {k}", name, class_id)]
            if owns_KC[k, c]:
                raise errors.UserError(
                    f"{what}: client {k} has class {name!r} twice. Name it once."
                )
            owns_KC[k, c] = True
    return owns_KC


def _check_present(what, owns_KC, y_N, dataset):
    """Raises UserError for a class of a client without examples."""
    absent_C = np.bincount(y_N, minlength=owns_KC.shape[1]) == 0
    if (wrong_KC := owns_KC & absent_C).any():
        k, c = np.argwhere(wrong_KC)[0]
        raise errors.UserError(
            f"{what}: client {k} has class {dataset.class_names()[c]!r}, of which "
            "there is no example. Leave it out."
        )
