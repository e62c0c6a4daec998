"""Conversion of a user's examples to the form of the data set of a run."""

import numpy as np

from jaxproto.data import labels, scale, text
from jaxproto.data.dataset import Dataset
from jaxproto.errors import UserError


def to_dataset_inputs(dataset: Dataset, x) -> np.ndarray:
    """Returns inputs [M, ...] in the form of `dataset.x`, before normalisation.

    Args:
      x: uint8 images (grey ones also without the axis of channels), or numbers. For a
        data set of texts: tokens or texts.

    Raises:
      UserError: the inputs have another shape or type.
    """
    like, given = dataset.x, np.asarray(x)
    if dataset.tokens and given.dtype.kind in "UTO" and given.ndim == 1:
        tokens = text.tokenize([str(item) for item in x])
        given = text.token_table(tokens, dataset.tokens, like.shape[1])
    shape = like.shape[1:]
    if len(shape) == 3 and (*given.shape[1:], 1) == shape:
        given = given[..., None]
    wanted = f"{like.dtype}[M, {', '.join(map(str, shape))}]"
    if given.shape[1:] != shape or given.ndim != like.ndim:
        hint = " Give one example as x[None]." if given.shape == shape else ""
        raise UserError(
            f"inputs have shape {list(given.shape)}, but those of {dataset.name} are "
            f"{wanted}.{hint}"
        )
    if len(given) == 0:
        raise UserError(f"there is no example in x; give {wanted}.")
    if not _fits(given, like):
        raise UserError(
            f"inputs are {given.dtype}, but those of {dataset.name} are {wanted}: give "
            "them as the data set stores them, before they are normalised."
        )
    return given.astype(like.dtype, copy=False)


def _fits(given: np.ndarray, like: np.ndarray) -> bool:
    """Returns whether inputs can have the type of the data set, unchanged."""
    if like.dtype == np.uint8:
        floats = given.dtype.kind == "f" and given.max() > scale.SCALED
        return given.dtype == np.uint8 or (floats and scale.are_pixels(given))
    return given.dtype.kind in ("iu" if like.dtype.kind == "i" else "iuf")


def to_class_ids(dataset: Dataset, y, examples: int) -> np.ndarray:
    """Returns labels [M] as class numbers.

    Args:
      y: class numbers, or names if the classes of the data set have names.
      examples: number of labels that is required.

    Raises:
      UserError: a label is no class of the run, or the number of labels is wrong.
    """
    given = labels.check_labels(dataset.name, "y", y)
    if given.dtype.kind == "O":
        class_id = {name: c for c, name in enumerate(dataset.classes)}
        given = np.array([class_id.get(name, -1) for name in given.tolist()], int)
    wrong = np.flatnonzero((given < 0) | (given >= dataset.num_classes))
    if len(wrong):
        label, known = np.ravel(y)[wrong[0]], f"0 to {dataset.num_classes - 1}"
        named = " or their names" if dataset.classes else ""
        raise UserError(
            f"label {label!s} of example {wrong[0]} is no "
            f"class of {dataset.name}: its classes are {known}{named}."
        )
    if len(given) != examples:
        raise UserError(
            f"there are {examples} examples and {len(given)} labels; give one each."
        )
    return given.astype(np.int32)
