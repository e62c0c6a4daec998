"""What a data set is, and what makes one fit to train on.

Every reader hands its arrays to `assemble`, so every data set passes the same checks
and fails them in the same words.
"""

from typing import NamedTuple

import numpy as np

from jaxproto import errors

Part = tuple[np.ndarray, np.ndarray]  # x [N, ...], y [N]


class Source(NamedTuple):
    """A data set on the host: the official training part first, then the test part."""

    name: str
    x: np.ndarray  # [N, H, W, channels] uint8 images, or [N, ...] float32 features
    y: np.ndarray  # [N] int32 in 0..num_classes-1
    num_classes: int
    train_size: int  # rows of the official training part; N if there is no test part
    public: np.ndarray | None = None  # [P] int32, rows that are no client's own


def assemble(
    name: str, train: Part, test: Part | None = None, num_classes: int | None = None
) -> Source:
    """Returns the checked data set.

    Args:
      name: how the user called the data set; every message begins with it.
      train: inputs and labels of the official training part.
      test: those of the official test part, where there is one.
      num_classes: the declared number of classes; the largest label + 1 if None.

    Raises:
      UserError: an empty part; x and y of different length; inputs that are neither
        uint8 nor floats, not finite, or of a strange shape; labels that are not
        integers in 0..num_classes-1; parts that do not fit together.
    """
    parts = {"train": train} if test is None else {"train": train, "test": test}
    x = [_inputs(name, f"x_{split}", part[0]) for split, part in parts.items()]
    y = [_labels(name, f"y_{split}", part[1]) for split, part in parts.items()]
    for split, x_N, y_N in zip(parts, x, y, strict=True):
        _check_lengths(name, split, x_N, y_N)
        _check_finite(name, f"x_{split}", x_N)
    _check_alike(name, x)
    if num_classes is None:
        num_classes = _infer_classes(name, y)
    for split, y_N in zip(parts, y, strict=True):
        _check_range(name, f"y_{split}", y_N, num_classes)
    return Source(name, _join(x), _join(y).astype(np.int32), num_classes, len(x[0]))


def empty_classes(source: Source) -> list[int]:
    """Returns the classes without a single example (allowed, but worth a word)."""
    count_C = np.bincount(source.y, minlength=source.num_classes)
    return np.flatnonzero(count_C == 0).tolist()


def _inputs(name, array, x):
    x = np.asarray(x)
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what overflows is found by _check_finite
            x = x.astype(np.float32, copy=False)
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
    return x[..., None] if x.ndim == 3 else x


def _labels(name, array, y):
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise errors.UserError(
            f"{name}: {array} has shape {y.shape}. Give one integer per example "
            "(one-hot rows become integers by np.argmax(y, axis=1))."
        )
    if y.dtype.kind not in "iu":
        raise errors.UserError(
            f"{name}: {array} has type {y.dtype}, but labels are integers from 0 on. "
            "Convert them, for example by np.unique(y, return_inverse=True)[1]."
        )
    return y


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
    kinds = [f"examples of shape {x_N.shape[1:]} and type {x_N.dtype}" for x_N in x]
    if kinds[0] != kinds[-1]:
        raise errors.UserError(
            f"{name}: x_train has {kinds[0]}, but x_test has {kinds[-1]}. "
            "Bring both parts to one shape and type."
        )


def _infer_classes(name, y):
    classes, examples = max(int(y_N.max()) for y_N in y) + 1, sum(map(len, y))
    if classes > examples:
        raise errors.UserError(
            f"{name}: the largest label, {classes - 1}, means {classes} classes, more "
            f"than the {examples} examples. Number the classes from 0 without gaps "
            "(np.unique(y, return_inverse=True)[1]), or declare num_classes."
        )
    return classes


def _check_range(name, array, y_N, num_classes):
    bad_N = (y_N < 0) | (y_N >= num_classes)
    if bad_N.any():
        row = bad_N.argmax()
        raise errors.UserError(
            f"{name}: {array} has label {y_N[row]} in row {row}, but labels go from 0 "
            f"to {num_classes - 1} ({bad_N.sum()} of {len(y_N)} are outside). "
            "Correct the labels or the number of classes."
        )


def _join(parts):
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
