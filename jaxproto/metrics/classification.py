"""Metrics of the predicted class: accuracy, balanced accuracy, macro F1, per class.

The prediction is the class with the highest score. Where that is -inf (no prototype)
or nan there is none: the example counts, and no class was predicted.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.types import Array


def correct(scores_BC: Array, y_B: Array) -> Array:
    """Which examples of a batch are right [B]."""
    best_B = jnp.max(scores_BC, -1)
    return (jnp.argmax(scores_BC, -1) == y_B) & jnp.isfinite(best_B)


def accuracy(scores_BC: Array, y_B: Array, mask_B: Array) -> tuple[Array, Array]:
    """Share of examples whose class was predicted; of every run."""
    return jnp.sum(correct(scores_BC, y_B) * mask_B), jnp.sum(mask_B)


class ClassCounts(NamedTuple):
    """Examples by class."""

    right: Array  # [C] of the class, and predicted so
    predicted: Array  # [C] predicted so
    own: Array  # [C] of the class


def class_counts(scores_BC: Array, y_B: Array, mask_B: Array) -> ClassCounts:
    """Counts of one batch."""
    classes, known_B = scores_BC.shape[-1], jnp.isfinite(jnp.max(scores_BC, -1))
    said_BC = jax.nn.one_hot(jnp.argmax(scores_BC, -1), classes)
    said_BC = said_BC * (mask_B * known_B)[:, None]
    own_BC = jax.nn.one_hot(y_B, classes) * mask_B[:, None]
    return ClassCounts(*(a.sum(0) for a in (said_BC * own_BC, said_BC, own_BC)))


def balanced_accuracy(scores_BC: Array, y_B: Array, mask_B: Array) -> ClassCounts:
    """Mean recall over the classes that have examples."""
    return class_counts(scores_BC, y_B, mask_B)


def macro_f1(scores_BC: Array, y_B: Array, mask_B: Array) -> ClassCounts:
    """Mean F1 over the classes that have examples or were predicted."""
    return class_counts(scores_BC, y_B, mask_B)


def per_class(scores_BC: Array, y_B: Array, mask_B: Array) -> ClassCounts:
    """Recall, precision and support (examples) of every class."""
    return class_counts(scores_BC, y_B, mask_B)


def mean_recall(counts: ClassCounts) -> float:
    """Value of `balanced_accuracy`."""
    return nanmean_over_classes(counts.right / counts.own)


def mean_f1(counts: ClassCounts) -> float:
    """Value of `macro_f1`."""
    return nanmean_over_classes(2 * counts.right / (counts.predicted + counts.own))


def of_classes(counts: ClassCounts) -> dict[str, np.ndarray]:
    """Value of `per_class`; nan where a class has no example, or was not predicted."""
    return {
        "recall": np.asarray(counts.right / counts.own),
        "precision": np.asarray(counts.right / counts.predicted),
        "support": np.asarray(counts.own),
    }


def nanmean_over_classes(value_C: np.ndarray | Array) -> float:
    """Mean over the classes that have a value; nan if none has."""
    there_C = np.asarray(value_C)[~np.isnan(value_C)]
    return float(there_C.mean()) if len(there_C) else np.nan
