"""What an attacker has besides the upload, and what is held against its findings.

Examples of the test data, on which nobody trained, are split by class: half are public,
the attacker's own; half are outsiders, that membership is told apart from. As many of
the client's training examples of each class as there are outsiders are the members.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxproto import batches
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment


class AttackerKnowledge(NamedTuple):
    """Examples as networks get them, with their classes."""

    members: tuple[np.ndarray, np.ndarray]  # x [M, ...], y [M]
    outsiders: tuple[np.ndarray, np.ndarray]  # as many of each class
    public: tuple[np.ndarray, np.ndarray]
    own: tuple[np.ndarray, np.ndarray]  # all that the client trains on


def attacker_knowledge(exp: Experiment, id: int, seed: int) -> AttackerKnowledge:
    """What there is of a client; seeded.

    Raises:
      UserError: there are no test examples.
    """
    rng, y = np.random.default_rng([seed, id]), exp.dataset.y
    own = exp.partition.train[id]
    tested = np.setdiff1d(np.unique(np.concatenate(exp.partition.test)), own)
    if not len(tested):
        raise UserError("the run has no test examples, which attacks are judged by.")
    parts: dict[str, list[np.ndarray]] = {"members": [], "outsiders": [], "public": []}
    for c in range(exp.spec.num_classes):
        mine, others = (rng.permutation(rows[y[rows] == c]) for rows in (own, tested))
        half = len(others) // 2
        number = min(half, len(mine))
        parts["members"].append(mine[:number])
        parts["outsiders"].append(others[:number])
        parts["public"].append(others[half:])
    shown = {k: examples(exp, np.concatenate(rows)) for k, rows in parts.items()}
    return AttackerKnowledge(own=examples(exp, own), **shown)


def examples(exp: Experiment, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Examples as networks get them."""
    x = np.asarray(batches.normalise_inputs(jnp.asarray(exp.dataset.x[rows])))
    return x, exp.dataset.y[rows]


def class_means(data: tuple[np.ndarray, np.ndarray], classes: int) -> np.ndarray:
    """The mean example of each class [C, ...]; of all classes where one has none."""
    x, y = data
    every = x.mean(0)
    return np.stack(
        [x[y == c].mean(0) if (y == c).any() else every for c in range(classes)]
    )


def check_images(exp: Experiment):
    """Raises UserError unless examples are images, which inversion looks for."""
    if exp.dataset.x.ndim != 4:
        raise UserError(
            f"examples of {exp.dataset.name} are no images, which inversion looks "
            "for. membership and classes work on any data."
        )
