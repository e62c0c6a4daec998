"""Arrays of clients: one pair of inputs and classes each, checked and joined."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxproto.errors import UserError

Pair = tuple[Any, Any]  # inputs [M, ...] and classes [M]


class FederationArrays(NamedTuple):
    """Examples of all clients, and the row numbers of each."""

    x: np.ndarray  # [N, ...]
    y: np.ndarray  # [N]
    train: list[np.ndarray]  # row numbers of each client
    test: list[np.ndarray]
    public: np.ndarray | None  # row numbers


def join_arrays(
    train: Sequence[Pair], test: Sequence[Pair], public: Pair | None
) -> FederationArrays:
    """Joins the arrays of all clients.

    Args:
      train: Inputs and classes of each client.
      test: Further ones of each client.
      public: Examples that all clients know.

    Raises:
      UserError: A client has no examples, or arrays do not fit.
    """
    if not len(train) == len(test) > 0:
        raise UserError(
            f"train has {len(train)} clients, and test {len(test)}; give one pair of "
            "inputs and classes for each client in both."
        )
    parts = {"train": train, "test": test}
    pairs = [
        _checked(f"{part} of client {i}", *pair)
        for part, given in parts.items()
        for i, pair in enumerate(given)
    ]
    pairs += [_checked("public", *public)] if public else []
    kinds = {(x.dtype.name, x.shape[1:]): None for x, _ in pairs}
    if len(kinds) > 1:
        raise UserError(
            "inputs of all clients must have one type and shape, but there are "
            f"{', '.join(f'{dtype}{[*shape]}' for dtype, shape in kinds)}."
        )
    x, y = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    stops = np.cumsum([len(y) for _, y in pairs])
    rows = np.split(np.arange(len(y)), stops[:-1])
    n = len(train)
    return FederationArrays(
        x, y, rows[:n], rows[n : 2 * n], rows[-1] if public else None
    )


def _checked(name: str, x, y) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs in the type in which they are stored, and classes."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape[:1] != y.shape:
        raise UserError(
            f"{name} has inputs {[*x.shape]} and classes {[*y.shape]}; give a class "
            "for each input."
        )
    if not len(y):
        raise UserError(f"{name} has no examples; leave the client out.")
    if y.dtype.kind not in "iu" or x.dtype.kind not in "iuf":
        raise UserError(
            f"{name} has inputs {x.dtype} and classes {y.dtype}; inputs must be "
            "numbers, and classes whole numbers from 0."
        )
    if x.dtype != np.uint8:
        x = np.asarray(x, np.float32 if x.dtype.kind == "f" else np.int32)
    if not np.isfinite(x).all():
        raise UserError(f"{name} has inputs that are not finite in float32.")
    return x, y


def check_labels(data: FederationArrays, num_classes: int):
    """Raises UserError if a class is not from 0 to `num_classes` - 1."""
    for k, rows in enumerate((*data.train, *data.test)):
        y, part = data.y[rows], "train" if k < len(data.train) else "test"
        if y.min() < 0 or y.max() >= num_classes:
            raise UserError(
                f"{part} of client {k % len(data.train)} has classes from {y.min()} to "
                f"{y.max()}, but networks have classes from 0 to {num_classes - 1}."
            )
