"""Membership inference: was an example in the training data of a client?

Threat model: an honest-but-curious server that has the upload and candidate examples
with their labels; for prototypes, also a network, as in `prototype_inversion.py`.

- Prototypes: an example scores high if its features are near the prototype of its
  class; all examples of a class without a prototype have equal scores.
- Weights: an example scores high if the uploaded network has a low loss on it (Yeom et
  al., CSF 2018).

Members are training examples of the client; the others are as many test examples of
the same classes. The area under the ROC curve, 0.5 for guessing, is a mean over clients
and runs. Its interval is that of one test on all distinct examples. An area near 0.5
does not protect single examples, so the table also has true positive rates at low false
positive rates (Carlini et al., S&P 2022). A false positive rate of 0.1% requires 1,000
others; with fewer, the threshold is the highest score of the others.

Limits: one global threshold; `shadow_federations.py` has one per example.
"""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto.attacks.leakage import next_upload, prototype_inversion, scores
from jaxproto.attacks.leakage.attack_cases import AttackCase, AttackResult
from jaxproto.attacks.leakage.next_upload import Embedding
from jaxproto.attacks.leakage.prototype_inversion import PrototypeTarget
from jaxproto.core.types import Array, Client, Net, Tree

Scores = tuple[np.ndarray, np.ndarray]  # of members and of outsiders


def attack_membership(case: AttackCase) -> Iterator[AttackResult]:
    """Infers membership from prototypes and from weights."""
    for source, pair in by_source(case).items():
        row = {"source": source, "AUC": scores.auc(*pair)}
        yield AttackResult([row], scores=pair)


def by_source(case: AttackCase) -> dict[str, Scores]:
    """Returns the scores by source: the prototypes or weights that are sent."""
    pairs = {"prototypes": by_prototype(case), "weights": by_loss(case)}
    return {source: pair for source, pair in pairs.items() if pair is not None}


def by_prototype(case: AttackCase) -> Scores | None:
    """Scores members and outsiders by the prototypes; None if none are sent."""
    target = prototype_inversion.prototype_target(case)
    return None if target is None else by_target(case, target)


def by_target(case: AttackCase, target: PrototypeTarget) -> Scores:
    """Scores members and outsiders by their distances to prototypes."""
    score = partial(prototype_distance, case.captured.embedding, case.body, target)
    return score(case.known.members), score(case.known.outsiders)


def prototype_distance(
    embedding: Embedding,
    body: Client,
    target: PrototypeTarget,
    data: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Returns minus the distance of examples to the prototypes of their classes."""
    x, y = data
    feat = embedding(body, jnp.asarray(x))
    mean, mask = target.mean[y], target.mask[y]
    distances = prototype_inversion.distance(feat, mean, mask, target.scaled)
    return np.where(target.present[y], -np.asarray(distances), -np.inf)


def by_loss(case: AttackCase) -> Scores | None:
    """Scores members and outsiders by minus their loss; None if no network is sent."""
    net, received = case.captured.net, case.captured.stages.received
    params = next_upload.network(case.captured, case.messages[1])
    if params is None or "net" not in params:
        return None

    def score(data):
        return -np.asarray(losses(net, params["net"], received.norm["net"], *data))

    return score(case.known.members), score(case.known.outsiders)


@partial(jax.jit, static_argnums=0)
def losses(net: Net, params: Tree, norm: Tree, x: Array, y: Array) -> Array:
    """Returns the cross-entropy of a network on every example."""
    logits = net.apply(params, norm, x, False).logits
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
