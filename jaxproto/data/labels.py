"""Labels of any kind as class numbers 0..C-1, with the names of the classes.

One rule for all readers: a text that is a whole number is that number, also as pandas
writes a column with missing values (1.0); if one label is no such text, or has a zero
or a sign in front (01), all stay texts. Two labels that then look the same or are equal
as numbers are refused, and so are missing labels.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from jaxproto import errors

MISSING = {  # what pandas, R and Python write for no value
    *("", "nan", "NaN", "NA", "N/A", "<NA>", "NaT", "None", "null", "NULL", "#N/A"),
}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # a text that int64 keeps as it is
DECIMAL = re.compile(r"([+-]?[0-9]+)\.0*")  # a whole number among floats
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")
LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")
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
      Numbers [N] that are whole, or Python strings [N] in an array of objects.
    """
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise errors.UserError(
            f"{name}: {array} has shape {y.shape}. Give one integer per example "
            "(one-hot rows become integers by np.argmax(y, axis=1))."
        )
    if y.dtype.kind in "iu" or (y.dtype.kind == "f" and _are_whole(name, array, y)):
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


def is_missing(label) -> bool:
    """Returns whether a label says that there is none."""
    return not isinstance(label, str) or label.strip() in MISSING


def _are_whole(name, array, y):
    """Returns whether floats are integers; raises UserError for NaN."""
    missing = np.isnan(y)
    _check_missing(name, array, missing.tolist())
    return bool((np.abs(y) < 2**53).all() and (y == np.rint(y)).all())


def _check_missing(name, array, missing_N):
    if any(missing_N):
        raise errors.UserError(
            f"{name}: {array} has no label in row {missing_N.index(True)} "
            f"({sum(missing_N)} of {len(missing_N)} are empty, nan, NA or None). Give "
            "each example a label, or remove it; a class of such a name needs another."
        )


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
    """Raises UserError for labels that are missing or cannot be printed."""
    different = dict.fromkeys(label_N)
    missing = {label for label in different if is_missing(label)}
    if missing:
        _check_missing(name, array, [label in missing for label in label_N])
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
    integers with gaps, are numbered in sorted order, after `whole_numbers`.

    Args:
      name: of the data set.
      parts: split -> checked labels, the training part first.
      num_classes, classes: as in `make_dataset`.
    """
    parts, notes = whole_numbers(name, parts)
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
    if num_classes is None and gaps:
        y = [number_labels(y_N, label_C) for y_N in y]
        num_classes, classes = len(label_C), [str(c) for c in label_C]
        named = errors.first_few(map(repr, classes))
        notes += (f"{name}: labels {named} are numbered from 0 in this order",)
    num_classes = num_classes or max(label_C[-1], 0) + 1
    for split, y_N in zip(parts, y, strict=True):
        _check_range(name, f"y_{split}", y_N, num_classes)
    _check_number(name, num_classes, len(label_C))
    names = names_of_classes(classes)
    check_alike(name, names)
    return EncodedLabels(y, num_classes, names, notes + _unseen(name, y, names))


def whole_numbers(
    name: str, parts: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Returns labels of all parts as integers where all are whole numbers, and notes.

    Other labels stay as they are; a note names those with leading zeros.
    """
    floats = {y_N.dtype for y_N in parts.values() if y_N.dtype.kind == "f"}
    parts = {
        split: y_N.astype(np.int64) if y_N.dtype.kind == "f" else y_N
        for split, y_N in parts.items()
    }
    texts = {label for label in different_labels(parts.values()) if type(label) is str}
    decimal = {t: match[1] for t in texts if (match := DECIMAL.fullmatch(t))}
    if texts and all(INTEGER.fullmatch(decimal.get(t, t)) for t in texts):
        parts = {
            split: np.array([int(decimal.get(t, t)) for t in y_N.tolist()], np.int64)
            for split, y_N in parts.items()
        }
    else:
        decimal = {}
    notes = []
    if decimal or floats:
        such = errors.first_few(map(repr, sorted(decimal))) or "of type float"
        notes.append(f"{name}: labels {such} are read as whole numbers")
    if zeros := sorted(t for t in texts if LEADING_ZERO.fullmatch(t)):
        such = errors.first_few(map(repr, zeros))
        notes.append(f"{name}: labels {such} keep their leading zeros as names")
    return parts, tuple(notes)


def different_labels(parts: Iterable[np.ndarray]) -> list:
    """Returns the labels of all parts, each once, in sorted order: numbers, then texts.

    They are Python's integers or strings, as no type of numpy has the range of both
    int64 and uint64.
    """
    different = {label for y_N in parts for label in y_N.tolist()}
    return sorted(different, key=lambda label: (isinstance(label, str), label))


def number_labels(y_N: np.ndarray, label_C: Sequence) -> np.ndarray:
    """Returns the position [N] of each label in `label_C`.

    np.searchsorted is wrong for strings of `StringDType` (numpy's issue 31533).
    """
    number = {label: c for c, label in enumerate(label_C)}
    return np.fromiter(map(number.__getitem__, y_N.tolist()), int, len(y_N))


def check_alike(name: str, labels: Sequence[str]):
    """Raises UserError for two labels that look the same or are equal as numbers.

    Examples are composed and decomposed accents, digits of another width, letters with
    an invisible sign beside them, and the numbers 1, 01 and 1.0.
    """
    seen: dict[str | Decimal, str] = {}
    for label in labels:
        shown = unicodedata.normalize("NFKC", label)
        shown = "".join(c for c in shown if unicodedata.category(c) != "Cf").strip()
        key = Decimal(shown) if NUMBER.fullmatch(shown) else shown
        if (other := seen.setdefault(key, label)) != label:
            number = isinstance(key, Decimal) and shown == label
            raise errors.UserError(
                f"{name}: the labels {other!a} and "
                f"{label!a} "
                f"{'are equal as numbers' if number else 'look the same'}. "
                "Write both alike, or give them different names."
            )


def names_of_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of all classes; () where class 7 is called 7."""
    numbers = all(str(c) == str(i) for i, c in enumerate(classes))
    return () if numbers else tuple(map(str, classes))


def _unseen(name, y, classes):
    """Returns a note on test examples of classes without training examples, if any.

    Raises:
      UserError: they are more than half of the test part.
    """
    unseen = np.setdiff1d(y[-1], y[0])
    if not len(unseen):
        return ()
    count = np.isin(y[-1], unseen).sum()
    names = [repr(str(classes[c] if classes else c)) for c in unseen]
    if 2 * count > len(y[-1]):
        seen = [repr(str(classes[c] if classes else c)) for c in np.unique(y[0])]
        raise errors.UserError(
            f"{name}: {count} of {len(y[-1])} test examples are of classes that the "
            f"training part has none of: {errors.first_few(names)}; the training part "
            f"has {errors.first_few(seen)}. The parts seem to name or number their "
            "classes in two ways, or to divide examples by class. Give both the same "
            "labels."
        )
    return (
        f"{name}: the test part has {count} examples of {len(unseen)} classes that "
        f"the training part has none of ({errors.first_few(names)})",
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
