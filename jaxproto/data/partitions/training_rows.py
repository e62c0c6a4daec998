"""Changes of the training rows of a partition: held out, or given to one client."""

import math

import numpy as np

from jaxproto.data.partitions.registry import Partition

HELD_OUT = 2  # stream of the data seed


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
