"""Labels of any kind as class numbers 0..C-1, with the names of the classes."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import errors

MOST = 100_000  # classes; some partitions draw for each class, even an empty one
# a label that is a number; `int` refuses texts of thousands of digits
WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")


class EncodedLabels(NamedTuple):
    """Class numbers and names of labels."""

    y: list[np.ndarray]  # per part [N] int64 in 0..num_classes-1
    num_classes: int
    classes: tuple[str, ...]  # C names; () where class 7 is called 7
    notes: tuple[str, ...]  # sentences for the user


def check_labels(name: str, array: str, y: np.ndarray) -> np.ndarray:
    """Checks labels [N] or [N, 1] of an array.

    Returns:
      Integers [N], or Python strings [N] in an array of objects.
    """
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
    if y.dtype.kind not in "SUT":
        raise errors.UserError(
            f"{name}: {array} has type {y.dtype}, but labels are integers from 0 on "
            "or strings. Convert them, for example by "
            "np.unique(y, return_inverse=True)[1]."
        )
    label_N = _decode(name, array, y) if y.dtype.kind == "S" else y.tolist()
    _check_strings(name, array, label_N)
    return np.array(label_N, object)


def _decode(name, array, y):
    """Returns byte strings as texts; two that are no utf-8 could become one class."""
    try:
        return [label.decode() for label in y.tolist()]
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"{name}: {array} has the label {errors.shorten(error.object)}, which is "
            "not utf-8. Decode the labels, for example by "
            "np.char.decode(y, 'latin-1')."
        ) from error


def _check_strings(name, array, label_N):
    """Raises UserError for labels that are empty, missing or cannot be printed."""
    different = dict.fromkeys(label_N)
    empty = {c for c in different if not isinstance(c, str) or not c.strip()}
    if empty:
        row_E = [row for row, label in enumerate(label_N) if label in empty]
        raise errors.UserError(
            f"{name}: {array} has an empty label in row {row_E[0]} "
            f"({len(row_E)} of {len(label_N)} are empty). Give each example a label."
        )
    for label in different:
        if bad := errors.first_unprintable(label):
            raise errors.UserError(
                f"{name}: {array} has the label {errors.shorten(label)}, with the "
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
    label_C, gaps = different_labels(y), True
    if all(kinds.values()):
        gaps = label_C[0] >= 0 and label_C[-1] >= len(label_C)
    else:
        _check_declared(name, len(label_C), num_classes)
        num_classes = None
    notes: tuple[str, ...] = ()
    if num_classes is None and gaps:
        y = [number_labels(y_N, label_C) for y_N in y]
        num_classes, classes = len(label_C), [str(c) for c in label_C]
        named = errors.first_few(map(repr, classes))
        notes = (f"{name}: labels {named} are numbered from 0 in this order",)
    num_classes = num_classes or max(label_C[-1], 0) + 1
    for split, y_N in zip(parts, y, strict=True):
        _check_range(name, f"y_{split}", y_N, num_classes)
    _check_number(name, num_classes, len(label_C))
    names = names_of_classes(classes)
    check_alike(name, names)
    return EncodedLabels(y, num_classes, names, notes + _unseen(name, y, names))


def different_labels(parts: Sequence[np.ndarray]) -> list:
    """Returns the labels of all parts, each once, in sorted order.

    They are Python's integers or strings, as no type of numpy has the range of both
    int64 and uint64.
    """
    return sorted({label for y_N in parts for label in y_N.tolist()})


def number_labels(y_N: np.ndarray, label_C: Sequence) -> np.ndarray:
    """Returns the position [N] of each label in `label_C`.

    np.searchsorted is wrong for strings of `StringDType` (numpy's issue 31533).
    """
    number = {label: c for c, label in enumerate(label_C)}
    return np.fromiter(map(number.__getitem__, y_N.tolist()), int, len(y_N))


def check_alike(name: str, labels: Sequence[str]):
    """Raises UserError for two labels that look the same.

    Examples are composed and decomposed accents, digits of another width, letters with
    an invisible sign beside them, and the numbers 1 and 01.
    """
    seen: dict[str, str] = {}
    for label in labels:
        shown = unicodedata.normalize("NFKC", label)
        shown = "".join(c for c in shown if unicodedata.category(c) != "Cf").strip()
        if WHOLE.fullmatch(shown):
            shown = str(int(shown))
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
