"""Metrics of the predicted class: accuracy, balanced accuracy, macro F1, recall.

The prediction is the class with the highest score. If that score is -inf (no prototype)
or nan, no class is predicted, and the example still counts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.core.types import Array

ACCURACY = "accuracy"  # measured in every run; `rules` of its records have it


def correct(scores_BC: Array, y_B: Array) -> Array:
    """Returns whether each example of a batch is predicted correctly [B]."""
    best_B = jnp.max(scores_BC, -1)
    return (jnp.argmax(scores_BC, -1) == y_B) & jnp.isfinite(best_B)


def accuracy(scores_BC: Array, y_B: Array, mask_B: Array) -> tuple[Array, Array]:
    """Share of examples whose class was predicted; measured in every run."""
    return jnp.sum(correct(scores_BC, y_B) * mask_B), jnp.sum(mask_B)


class ClassCounts(NamedTuple):
    """Numbers of examples by class."""

    right: Array  # [C] examples of the class that are predicted as it
    predicted: Array  # [C] examples that are predicted as the class
    own: Array  # [C] examples of the class


def class_counts(scores_BC: Array, y_B: Array, mask_B: Array) -> ClassCounts:
    """Counts the examples of one batch by class."""
    classes, known_B = scores_BC.shape[-1], jnp.isfinite(jnp.max(scores_BC, -1))
    predicted_BC = jax.nn.one_hot(jnp.argmax(scores_BC, -1), classes)
    predicted_BC = predicted_BC * (mask_B * known_B)[:, None]
    true_BC = jax.nn.one_hot(y_B, classes) * mask_B[:, None]
    right_BC = predicted_BC * true_BC
    return ClassCounts(right_BC.sum(0), predicted_BC.sum(0), true_BC.sum(0))


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
    """Returns the value of `balanced_accuracy`."""
    return nanmean_over_classes(counts.right / counts.own)


def mean_f1(counts: ClassCounts) -> float:
    """Returns the value of `macro_f1`."""
    return nanmean_over_classes(2 * counts.right / (counts.predicted + counts.own))


def of_classes(counts: ClassCounts) -> dict[str, np.ndarray]:
    """Returns the values of `per_class`; nan without examples or predictions."""
    return {
        "recall": np.asarray(counts.right / counts.own),
        "precision": np.asarray(counts.right / counts.predicted),
        "support": np.asarray(counts.own),
    }


def nanmean_over_classes(value_C: np.ndarray | Array) -> float:
    """Averages over the classes that have a value; nan if none has."""
    valid_C = np.asarray(value_C)[~np.isnan(value_C)]
    return float(valid_C.mean()) if len(valid_C) else np.nan
