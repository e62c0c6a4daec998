"""Membership inference: was an example in the training data of a client?

Threat model: an honest-but-curious server that has the upload and candidate examples
with their labels; for prototypes, also a network, as in `prototype_inversion.py`.

- Prototypes: an example scores high if its features are near the prototype of its
  class; all examples of a class without a prototype have equal scores.
- Weights: an example scores high if the uploaded network has a low loss on it (Yeom et
  al., CSF 2018).

Members are training examples of the client; the others are as many test examples of
the same classes. The result is the area under the ROC curve; 0.5 is guessing. Over
several clients it is the mean, with the interval of one test on all their examples.

Limits: one global threshold, without shadow models, which find more (Shokri et al., S&P
2017; Carlini et al., S&P 2022). An area near 0.5 does not protect single examples. The
area on few examples has a wide interval.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto.contrib.leakage import next_upload, prototype_inversion
from jaxproto.contrib.leakage.attacker import AttackerKnowledge
from jaxproto.contrib.leakage.next_upload import CapturedUpload, Embedding, Messages
from jaxproto.contrib.leakage.prototype_inversion import PrototypeTarget
from jaxproto.types import Client


def by_prototype(
    captured: CapturedUpload, messages: Messages, known: AttackerKnowledge, body: Client
) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores members and outsiders by the prototypes; None if none are sent."""
    target = prototype_inversion.prototype_target(captured, messages)
    if target is None:
        return None

    def score(data):
        return prototype_distance(captured.embedding, body, target, data)

    return score(known.members), score(known.outsiders)


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
    far = prototype_inversion.distance(feat, mean, mask, target.scaled)
    return np.where(target.present[y], -np.asarray(far), -np.inf)


def by_loss(
    captured: CapturedUpload, messages: Messages, known: AttackerKnowledge
) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores members and outsiders by minus their loss; None if no network is sent."""
    params = next_upload.network(messages[1], captured.stages.received.params)
    if params is None or "net" not in params:
        return None
    norm = captured.stages.received.norm["net"]
    apply = jax.jit(captured.net.apply, static_argnums=3)

    def score(data):
        x, y = data
        logits = apply(params["net"], norm, x, False).logits
        losses = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
        return -np.asarray(losses)

    return score(known.members), score(known.outsiders)
