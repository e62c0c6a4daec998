"""Labels of any kind as class numbers 0..C-1, with the names of the classes."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import errors

MOST = 100_000  # classes; some partitions draw for each class, even an empty one


class EncodedLabels(NamedTuple):
    """Class numbers and names of labels."""

    y: list[np.ndarray]  # per part [N] int64 in 0..num_classes-1
    num_classes: int
    classes: tuple[str, ...]  # C names; () where class 7 is called 7
    notes: tuple[str, ...]  # sentences for the user


def check_labels(name: str, array: str, y: np.ndarray) -> np.ndarray:
    """Checks labels [N] or [N, 1] of an array; returns [N] integers or strings."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise errors.UserError(
            f"{name}: {array} has shape {y.shape}. Give one integer per example "
            "(one-hot rows become integers by np.argmax(y, axis=1))."
        )
    if y.dtype.kind in "iu":
        return y
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "replace")
    if y.dtype.kind not in "UT":
        raise errors.UserError(
            f"{name}: {array} has type {y.dtype}, but labels are integers from 0 on "
            "or strings. Convert them, for example by "
            "np.unique(y, return_inverse=True)[1]."
        )
    _check_printable(name, array, y)
    empty_N = np.strings.str_len(np.strings.strip(y)) == 0
    if empty_N.any():
        raise errors.UserError(
            f"{name}: {array} has an empty label in row {empty_N.argmax()} "
            f"({empty_N.sum()} of {len(y)} are empty). Give each example a label."
        )
    return y


def _check_printable(name, array, y):
    """Raises UserError for labels with characters that cannot be printed."""
    for label in np.unique(y).tolist():
        if bad := errors.first_unprintable(str(label)):
            raise errors.UserError(
                f"{name}: {array} has the label {errors.shorten(str(label))}, with the "
                f"character {bad}, which cannot be printed. Rename the class."
            )


def encode_labels(
    name: str,
    parts: Mapping[str, np.ndarray],
    num_classes: int | None = None,
    classes: Sequence[str] = (),
) -> EncodedLabels:
    """Converts labels to class numbers.

    Integers 0..C-1 stay, as do those below a declared number of classes. Strings, and
    integers with gaps, are numbered in sorted order.

    Args:
      name: of the data set.
      parts: split -> checked labels, the training part first.
      num_classes, classes: as in `make_dataset`.
    """
    kinds = {f"y_{split}": y_N.dtype.kind in "iu" for split, y_N in parts.items()}
    if len(set(kinds.values())) > 1:
        words = {True: "integers", False: "strings"}
        kind_of = ", ".join(f"{key} {words[whole]}" for key, whole in kinds.items())
        raise errors.UserError(
            f"{name}: labels are of two kinds ({kind_of}). Save both parts as one kind."
        )
    y = [*parts.values()]
    if all(kinds.values()):
        # as objects, since no type has the range of both int64 and uint64
        label_C = np.unique(np.concatenate([np.unique(a).astype(object) for a in y]))
        gaps = label_C[0] >= 0 and label_C[-1] >= len(label_C)
    else:
        label_C, gaps = np.unique(np.concatenate(y)), True
        _check_declared(name, len(label_C), num_classes)
        num_classes = None
    notes: tuple[str, ...] = ()
    if num_classes is None and gaps:
        y = [np.searchsorted(label_C, y_N.astype(label_C.dtype)) for y_N in y]
        num_classes, classes = len(label_C), [str(c) for c in label_C]
        named = errors.first_few(map(repr, classes))
        notes = (f"{name}: labels {named} are numbered from 0 in this order",)
    num_classes = num_classes or max(int(label_C[-1]), 0) + 1
    for split, y_N in zip(parts, y, strict=True):
        _check_range(name, f"y_{split}", y_N, num_classes)
    _check_number(name, num_classes, len(label_C))
    names = names_of_classes(classes)
    check_alike(name, names)
    return EncodedLabels(y, num_classes, names, notes + _unseen(name, y, names))


def check_alike(name: str, labels: Sequence[str]):
    """Raises UserError for two labels that look the same.

    Examples are composed and decomposed accents, digits of another width, and letters
    with an invisible sign beside them.
    """
    seen: dict[str, str] = {}
    for label in labels:
        shown = unicodedata.normalize("NFKC", label)
        shown = "".join(c for c in shown if unicodedata.category(c) != "Cf").strip()
        if (other := seen.setdefault(shown, label)) != label:
            raise errors.UserError(
                f"{name}: the labels {other!a} and {label!a} look the same. "
                "Write both alike, or give them different names."
            )


def names_of_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of all classes; () where class 7 is called 7."""
    numbers = all(str(c) == str(i) for i, c in enumerate(classes))
    return () if numbers else tuple(map(str, classes))


def _unseen(name, y, classes):
    """Returns a note on test examples of classes without training examples, if any."""
    unseen = np.setdiff1d(y[-1], y[0])
    if not len(unseen):
        return ()
    count = np.isin(y[-1], unseen).sum()
    names = [classes[c] if classes else c for c in unseen]
    return (
        f"{name}: the test part has {count} examples of {len(unseen)} classes that "
        f"the training part has none of "
        f"({errors.first_few(repr(str(n)) for n in names)})",
    )


def _check_declared(name, num_labels, num_classes):
    if num_classes not in (None, num_labels):
        raise errors.UserError(
            f"{name}: num_classes is {num_classes}, but the labels are {num_labels} "
            "different strings. Leave num_classes out, or save integers."
        )


def _check_number(name, num_classes, num_labels):
    if num_classes > MOST:
        raise errors.UserError(
            f"{name}: num_classes is {num_classes}, but labels are of {num_labels} "
            f"classes and at most {MOST:,} are supported. Save the right num_classes."
        )


def _check_range(name, array, y_N, num_classes):
    bad_N = (y_N < 0) | (y_N >= num_classes)
    if bad_N.any():
        row = bad_N.argmax()
        raise errors.UserError(
            f"{name}: {array} has label {y_N[row]} in row {row}, but labels go from 0 "
            f"to {num_classes - 1} ({bad_N.sum()} of {len(y_N)} are outside). "
            "Correct the labels or the number of classes."
        )
