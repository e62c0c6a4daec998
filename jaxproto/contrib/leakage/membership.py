"""Membership inference: was an example in the client's training data?

Threat model: an honest-but-curious server that has the upload and candidate examples
with their labels; for prototypes, also a network, as in `inversion.py`.

- Prototypes: an example is said to be a member if its features are near the prototype
  of its class; where the class has none, all examples score the same.
- Weights: if its loss under the uploaded network is low (Yeom et al., CSF 2018).

Members are training examples of the client, others as many test examples of the same
classes on which nobody trained; the score is the area under the ROC curve, 0.5 is
guessing. Over several clients it is the mean, and the interval that of one test with
all their examples.

Limits: one global threshold, without shadow models, which find more (Shokri et al., S&P
2017; Carlini et al., S&P 2022). An area near 0.5 is no protection: single examples may
still be told apart. The area on few examples has a wide interval.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto.contrib.leakage import next_upload, prototype_inversion
from jaxproto.contrib.leakage.attacker import AttackerKnowledge
from jaxproto.contrib.leakage.next_upload import CapturedUpload, Embedding
from jaxproto.contrib.leakage.prototype_inversion import PrototypeTarget
from jaxproto.types import Client, Tree


def by_prototype(
    made: CapturedUpload, sent: tuple[Tree, Tree], has: AttackerKnowledge, body: Client
) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores of members and of others, higher is likelier; None without prototypes."""
    goal = prototype_inversion.prototype_target(made, sent)
    if goal is None:
        return None

    def near_goal(data):
        return prototype_distance(made.embedding, body, goal, data)

    return near_goal(has.members), near_goal(has.outsiders)


def prototype_distance(
    embedding: Embedding,
    body: Client,
    goal: PrototypeTarget,
    data: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """How near examples are to the prototypes of their classes."""
    x, y = data
    feat = embedding(body, jnp.asarray(x))
    far = prototype_inversion.distance(feat, goal.mean[y], goal.mask[y], goal.scaled)
    return np.where(goal.there[y], -np.asarray(far), -np.inf)


def by_loss(
    made: CapturedUpload, sent: tuple[Tree, Tree], has: AttackerKnowledge
) -> tuple[np.ndarray, np.ndarray] | None:
    """The same by the uploaded network; None where none is sent."""
    params = next_upload.network(sent[1], made.stages.received.params)
    if params is None or "net" not in params:
        return None
    norm = made.stages.received.norm["net"]
    apply = jax.jit(made.net.apply, static_argnums=3)

    def low(data):
        x, y = data
        logits = apply(params["net"], norm, x, False).logits
        losses = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y)
        return -np.asarray(losses)

    return low(has.members), low(has.outsiders)
