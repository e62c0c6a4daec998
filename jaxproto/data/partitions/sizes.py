"""Checks of the numbers of examples of clients, with advice that can be followed."""

import math
from collections.abc import Sequence

import numpy as np

from jaxproto import errors
from jaxproto.data.partitions.label_skew import Scheme


def smallest_client(train_share: float) -> int:
    """Returns the least examples that give a training and a test example."""
    least = max(2, math.floor(1 / train_share))
    while math.floor(train_share * least) < 1:
        least += 1
    return least


def check_enough_examples(
    examples: int, clients: int, scheme: Scheme, smallest: int
) -> None:
    """Raises UserError unless every client can have enough examples.

    Args:
      scheme: may demand more of each client than `smallest`.
      smallest: examples of a client that every partition needs.
    """
    least = max(scheme.least, smallest)
    if clients * least <= examples:
        return
    most, field = examples // least, scheme.field
    advice: list[dict[str, int]] = []
    ways = []
    if most > 1:
        advice.append({"data.clients": most})
        ways.append(f"at most {most} clients")
    if field and examples >= clients * smallest:
        advice.append({field: examples // clients})
        ways.append(f"{field} {examples // clients}")
    elif field and least > smallest and (most := examples // smallest) > 1:
        advice.append({"data.clients": most, field: smallest})
        ways.append(f"at most {most} clients with {field} {smallest}")
    way = f"Use {', or '.join(ways)}" if ways else "These are too few for a federation"
    raise errors.UserError(
        f"{clients} clients with at least {least} examples each need "
        f"{clients * least} examples, but there are {examples}. {way}.",
        advice=advice,
    )


def check_none_is_empty(
    train: Sequence[np.ndarray],
    test: Sequence[np.ndarray],
    scheme: Scheme,
    train_share: float,
) -> None:
    """Raises UserError for a client without training or without test examples."""
    pairs = enumerate(zip(train, test, strict=True))
    lacking = [k for k, parts in pairs if not all(map(len, parts))]
    if not lacking:
        return
    k, others, smallest = lacking[0], len(lacking) - 1, smallest_client(train_share)
    more = f" (and so do {others} more clients)" if others else ""
    raises = scheme.field and scheme.least < smallest
    way = f"Set {scheme.field} to {smallest}" if raises else "Use fewer clients"
    raise errors.UserError(
        f"client {k} gets {len(train[k])} training and {len(test[k])} test examples at "
        f"data.train_share={train_share}{more}. {way}, or another data.train_share.",
        advice=[{scheme.field: smallest}] if raises else (),
    )
