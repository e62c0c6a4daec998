"""Examples that an attacker knows, and examples that its results are scored with.

The test data, on which no client trained, are split by class. One half is public and
known to the attacker. The other half are outsiders, the negatives of membership tests;
an equal number of training examples of the client and class are the members.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxproto.core import batches
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment


class AttackerKnowledge(NamedTuple):
    """Normalised examples with their classes."""

    members: tuple[np.ndarray, np.ndarray]  # x [M, ...], y [M]
    outsiders: tuple[np.ndarray, np.ndarray]  # an equal number of each class
    public: tuple[np.ndarray, np.ndarray]
    training: tuple[np.ndarray, np.ndarray]  # all training examples of the client
    ids: tuple[np.ndarray, np.ndarray]  # rows in the data of members and outsiders


def attacker_knowledge(exp: Experiment, id: int, seed: int) -> AttackerKnowledge:
    """Samples members, outsiders and public examples for an attack on client `id`."""
    rng, y = np.random.default_rng([seed, id]), exp.dataset.y
    training = exp.partition.train[id]
    tested = np.setdiff1d(np.unique(np.concatenate(exp.partition.test)), training)
    if not len(tested):
        raise UserError("the run has no test examples, which attacks are judged by.")
    parts: dict[str, list[np.ndarray]] = {"members": [], "outsiders": [], "public": []}
    for c in range(exp.spec.num_classes):
        train_rows, test_rows = (
            rng.permutation(rows[y[rows] == c]) for rows in (training, tested)
        )
        half = len(test_rows) // 2
        size = min(half, len(train_rows))
        parts["members"].append(train_rows[:size])
        parts["outsiders"].append(test_rows[:size])
        parts["public"].append(test_rows[half:])
    rows = {name: np.concatenate(part) for name, part in parts.items()}
    samples = {name: examples(exp, part) for name, part in rows.items()}
    return AttackerKnowledge(
        training=examples(exp, training),
        ids=(rows["members"], rows["outsiders"]),
        **samples,
    )


def examples(exp: Experiment, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns normalised examples x [M, ...] and their classes y [M]."""
    x = np.asarray(batches.normalise_inputs(jnp.asarray(exp.dataset.x[rows])))
    return x, exp.dataset.y[rows]


def class_means(data: tuple[np.ndarray, np.ndarray], classes: int) -> np.ndarray:
    """Returns class means [C, ...]; an empty class has the overall mean."""
    x, y = data
    overall = x.mean(0)
    return np.stack(
        [x[y == c].mean(0) if (y == c).any() else overall for c in range(classes)]
    )


def check_images(exp: Experiment):
    """Raises UserError unless the examples are images."""
    if exp.dataset.x.ndim != 4:
        raise UserError(
            f"examples of {exp.dataset.name} are no images, which inversion looks "
            "for. membership and classes work on any data."
        )
