"""Classes and labels from the change of the last layer.

The gradient of the cross-entropy by the bias of class c is the mean over the batch of
p_c - [y = c]. It is negative only for classes in the batch; with one example, it is
negative only for its label (Zhao, Mopuri, Bilen: iDLG, 2020). With more examples, the
mean of p is estimated from the predictions of the network on public examples.
"""

import jax
import numpy as np
from scipy.optimize import nnls

from jaxproto.attacks.leakage.attack_cases import AttackCase
from jaxproto.attacks.leakage.attacker import class_means
from jaxproto.core.types import Tree

WEIGHT = 10.0  # of the equation that shares sum to 1


def predictions(case: AttackCase, params: Tree) -> np.ndarray:
    """Returns the mean predictions [C, C] of a network on public examples per class."""
    x, y = case.known.public
    net, norm = case.captured.net, case.captured.stages.received.norm["net"]
    apply = jax.jit(net.apply, static_argnums=3)
    predicted = np.asarray(jax.nn.softmax(apply(params["net"], norm, x, False).logits))
    return class_means((predicted, y), predicted.shape[1])


def label_shares(push_C: np.ndarray, predicted_CC: np.ndarray) -> np.ndarray:
    """Estimates the shares [C] of classes from the mean push of examples on the bias.

    Args:
      push_C: Minus the gradient, the mean of [y = c] - p_c.
      predicted_CC: Mean predictions on public examples of each class.
    """
    classes = len(push_C)
    system = np.vstack([np.eye(classes) - predicted_CC.T, np.full(classes, WEIGHT)])
    shares, _ = nnls(system, np.append(push_C, WEIGHT))
    return shares / max(shares.sum(), 1e-12)


def restore_labels(
    push_C: np.ndarray, predicted_CC: np.ndarray, size: int
) -> np.ndarray:
    """Returns the sorted labels [size] of a batch; a single label is exact.

    Classes with a positive push get one label each, the strongest first. The estimated
    shares determine the other labels.
    """
    order = np.argsort(-push_C)
    labels = [int(c) for c in order if push_C[c] > 0][:size] or [int(order[0])]
    remaining_C = label_shares(push_C, predicted_CC) * size
    np.subtract.at(remaining_C, labels, 1)
    while len(labels) < size:
        labels.append(int(np.argmax(remaining_C)))
        remaining_C[labels[-1]] -= 1
    return np.sort(np.array(labels))


def label_accuracy(labels: np.ndarray, true: np.ndarray, classes: int) -> float:
    """Returns the share of correct labels, regardless of order."""
    counts = [np.bincount(y, minlength=classes) for y in (labels, true)]
    return float(np.minimum(*counts).sum() / len(true))
