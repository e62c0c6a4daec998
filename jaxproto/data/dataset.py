"""Data sets as arrays, and the checks of every reader's arrays (`make_dataset`)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.data import labels, scale

Part = tuple[np.ndarray, np.ndarray]  # x [N, ...], y [N]


class Dataset(NamedTuple):
    """Data set on the host: the official training part first, then the test part."""

    name: str
    x: np.ndarray  # [N, H, W, channels] uint8 images, [N, ...] float32, [N] texts
    # (numpy strings of any kind), which `text.encode` makes [N, L] int32 tokens
    y: np.ndarray  # [N] int32 in 0..num_classes-1
    num_classes: int
    train_size: int  # rows of the official training part; N if there is no test part
    public: np.ndarray | None = None  # [P] int32, rows that belong to no client
    domain: np.ndarray | None = None  # [N] int32, source of each example
    domains: tuple[str, ...] = ()  # names of sources; () without sources
    classes: tuple[str, ...] = ()  # C names; () where class 7 is called 7
    notes: tuple[str, ...] = ()  # sentences about the data, from its reader
    tokens: tuple[str, ...] = ()  # vocabulary of x; () if x has no tokens
    foreign: int = 0  # number of last rows from another data set, all of them public

    def class_names(self) -> tuple[str, ...]:
        """Returns the names of all classes; numbers as text."""
        return self.classes or tuple(map(str, range(self.num_classes)))


def join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenates parts; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def make_dataset(
    name: str,
    train: Part,
    test: Part | None = None,
    num_classes: int | None = None,
    *,
    classes: Sequence[str] = (),
    tokens: Sequence[str] = (),
    join: Callable[[Sequence[np.ndarray]], np.ndarray] = join,
) -> Dataset:
    """Checks arrays and makes a data set of them.

    Args:
      name: of the data set, as the user gave it; every message begins with it.
      train: inputs and labels of the official training part.
      test: inputs and labels of the official test part, if there is one.
      num_classes: declared number of classes, whose labels are 0..num_classes-1. If
        None, strings and integers with gaps are numbered in sorted order.
      classes: names of numbered classes, if the reader knows them.
      tokens: vocabulary of inputs that are tokens [N, L]; () if they are none.
      join: checked inputs of the parts -> array of all inputs.
    """
    parts = {"train": train} if test is None else {"train": train, "test": test}
    check = partial(_check_tokens, len(tokens)) if tokens else _check_inputs
    x = [check(name, f"x_{split}", part[0]) for split, part in parts.items()]
    y = [
        labels.check_labels(name, f"y_{split}", part[1])
        for split, part in parts.items()
    ]
    for split, x_N, y_N in zip(parts, x, y, strict=True):
        _check_lengths(name, split, x_N, y_N)
        _check_finite(name, f"x_{split}", x_N)
    arrays = [f"x_{split}" for split in parts]
    x, notes = scale.to_pixels(name, dict(zip(arrays, x, strict=True)))
    _check_alike(name, x)
    numbered = labels.encode_labels(
        name, dict(zip(parts, y, strict=True)), num_classes, classes
    )
    return Dataset(
        name=name,
        x=join(x),
        y=np.concatenate(numbered.y).astype(np.int32),
        num_classes=numbered.num_classes,
        train_size=len(x[0]),
        classes=numbered.classes,
        notes=notes + numbered.notes,
        tokens=tuple(tokens),
    )


def input_type(x: np.ndarray) -> str:
    """Returns the type of inputs: "text" for strings of any length and kind."""
    return "text" if x.dtype.kind in "UT" else x.dtype.name


def empty_classes(dataset: Dataset) -> list[int]:
    """Returns the classes without examples, which are allowed."""
    count_C = np.bincount(dataset.y, minlength=dataset.num_classes)
    return np.flatnonzero(count_C == 0).tolist()


def _check_inputs(name, array, x):
    """Returns inputs as float32, uint8 or texts; images get an axis of channels."""
    x = np.asarray(x)
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):  # _check_finite refuses overflow
            x = x.astype(np.float32, copy=False)
    elif x.dtype.kind in "UT":
        if x.ndim != 1:
            raise errors.UserError(
                f"{name}: {array} holds texts in shape {x.shape}. Give one text per "
                "example, [N]."
            )
        return x
    elif x.dtype != np.uint8:
        raise errors.UserError(
            f"{name}: {array} has type {x.dtype}. "
            "Save images as uint8 (0 to 255) and features as float32."
        )
    if x.ndim < 2:
        raise errors.UserError(
            f"{name}: {array} has shape {x.shape}. Give [N, features], grey images "
            "[N, height, width] or images [N, height, width, channels]."
        )
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] not in (1, 3, 4):
        raise errors.UserError(
            f"{name}: {array} has shape {x.shape}, which looks like channels first. "
            "Save np.moveaxis(x, 1, -1), that is [N, height, width, channels]."
        )
    if 0 in x.shape[1:]:
        raise errors.UserError(
            f"{name}: {array} has shape {x.shape}: an example of it holds no number. "
            "Save at least one per example."
        )
    return x[..., None] if x.ndim == 3 else x


def _check_tokens(num_tokens, name, array, x):
    """Returns tokens as int32."""
    x = np.asarray(x)
    if x.ndim != 2 or x.dtype.kind not in "iu" or not x.shape[1]:
        raise errors.UserError(
            f"{name}: {array} has type {x.dtype} and shape {x.shape}, but the file has "
            "a vocabulary. Save tokens as integers [N, length], or leave tokens out."
        )
    if x.size and not 0 <= x.min() <= x.max() < num_tokens:
        raise errors.UserError(
            f"{name}: {array} has tokens from {x.min()} to {x.max()}, but the "
            f"vocabulary has {num_tokens}. Give tokens from 0 (padding) to "
            f"{num_tokens - 1}."
        )
    return x.astype(np.int32)


def _check_lengths(name, split, x_N, y_N):
    if len(x_N) != len(y_N):
        raise errors.UserError(
            f"{name}: x_{split} has {len(x_N)} examples but y_{split} has {len(y_N)}. "
            "Save one label per example."
        )
    if len(x_N) == 0:
        raise errors.UserError(
            f"{name}: the {split} part is empty (x_{split} has shape {x_N.shape}). "
            "Save at least one example."
        )


def _check_finite(name, array, x_N):
    if x_N.dtype.kind != "f":
        return
    bad_N = ~np.isfinite(x_N).all(axis=tuple(range(1, x_N.ndim)))
    if bad_N.any():
        raise errors.UserError(
            f"{name}: {array} has a NaN or infinite value (as float32) in "
            f"{bad_N.sum()} of {len(x_N)} rows, the first in row {bad_N.argmax()}. "
            "Remove or repair these rows."
        )


def _check_alike(name, x):
    pairs = [(x_N.shape[1:], input_type(x_N)) for x_N in x]
    kinds = [f"examples of shape {shape} and type {kind}" for shape, kind in pairs]
    if kinds[0] != kinds[-1]:
        raise errors.UserError(
            f"{name}: x_train has {kinds[0]}, but x_test has {kinds[-1]}. "
            "Bring both parts to one shape and type."
        )
