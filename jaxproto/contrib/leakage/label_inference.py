"""Classes and labels from the last layer's change.

The gradient of the cross-entropy by the bias of class c is the mean over the batch of
p_c - [y = c]: it is negative only where c is in the batch, and with one example at its
label alone (Zhao, Mopuri, Bilen: iDLG, 2020). With more examples the mean of p has to
be guessed: by what the network says of public examples.
"""

import numpy as np
from scipy.optimize import nnls

WEIGHT = 10.0  # of shares adding up to 1


def label_shares(push_C: np.ndarray, said_CC: np.ndarray) -> np.ndarray:
    """Shares [C] of the classes among examples whose mean push on the bias is known.

    Args:
      push_C: minus the gradient, [y = c] - p_c on average.
      said_CC: probabilities that the network gives to public examples of each class.
    """
    classes = len(push_C)
    system = np.vstack([np.eye(classes) - said_CC.T, np.full(classes, WEIGHT)])
    found, _ = nnls(system, np.append(push_C, WEIGHT))
    return found / max(found.sum(), 1e-12)


def restore_labels(push_C: np.ndarray, said_CC: np.ndarray, number: int) -> np.ndarray:
    """Labels [number] of a batch, sorted; one label is exact.

    Classes that were pushed up are there, the strongest first; what is left is dealt by
    the estimated shares.
    """
    order = np.argsort(-push_C)
    found = [int(c) for c in order if push_C[c] > 0][:number] or [int(order[0])]
    left = label_shares(push_C, said_CC) * number
    np.subtract.at(left, found, 1)
    while len(found) < number:
        found.append(int(np.argmax(left)))
        left[found[-1]] -= 1
    return np.sort(np.array(found))


def label_accuracy(found: np.ndarray, true: np.ndarray, classes: int) -> float:
    """Share of labels that are right, whatever their order."""
    counts = [np.bincount(y, minlength=classes) for y in (found, true)]
    return float(np.minimum(*counts).sum() / len(true))
