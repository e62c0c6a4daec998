"""Which classes a client holds, and how many examples of each.

Threat model: an honest-but-curious server that has the upload, knows the protocol and
what it broadcast, and for two of the sources holds public examples and a network.

- `rows`: prototypes that are there; counts where the method discloses them.
- `length`: rows that a client scales by its counts, without sending those, are as much
  longer: their lengths over those of public examples' features in the same coordinates.
  The network is the client's own, which is the worst case.
- `chosen entries`: of the last layer, those of a class that are sent; a class is said
  to be there if it has at least half as many as the one that has most.
- `last layer`: a class is said to be there if its bias was pushed up. Its share follows
  from the mean push and what the network says of public examples (`labels.py`), its
  count from that and the number of examples, where the upload has it.

Limits: the estimates from the last layer are of many steps of plain SGD that are taken
as one, with other optimisers only presence is said; a class with few examples, or one
that the network knows already, is hardly pushed. Only rows and disclosed counts are
exact. The error of counts is the sum of absolute differences over the sum of counts:
that of equal counts for every class is beside it.
"""

from typing import NamedTuple

import numpy as np

from jaxproto.contrib.leakage import (
    gradient_inversion,
    head_change,
    label_inference,
    next_upload,
    prototype_inversion,
)
from jaxproto.contrib.leakage.attacker import AttackerKnowledge, class_means
from jaxproto.contrib.leakage.next_upload import CapturedUpload
from jaxproto.types import Client, Tree


class ClassEvidence(NamedTuple):
    """What an upload says of classes."""

    source: str
    present: np.ndarray  # [C] bool
    examples: np.ndarray | None = None  # [C] how many; None where nothing follows


def class_evidence(
    made: CapturedUpload, sent: tuple[Tree, Tree], has: AttackerKnowledge, body: Client
) -> list[ClassEvidence]:
    """All that follows from messages as the server has them, a source each."""
    found = [*_of_rows(made, sent, has, body)]
    head = head_change.head_change(made, sent[1])
    if head is None:
        return found
    if head.chosen:
        found.append(ClassEvidence("chosen entries", head.sent >= head.sent.max() / 2))
    count = None if head.chosen else _counts(made, sent[1], has)
    return [*found, ClassEvidence("last layer", head.bias > 0, count)]


def _of_rows(made, sent, has, body):
    protos, goal = (
        next_upload.as_server_reads(made, sent),
        prototype_inversion.prototype_target(made, sent),
    )
    if protos is None or goal is None:
        return
    disclosed = np.asarray(protos.count, float) if protos.disclosed else None
    yield ClassEvidence("rows", goal.there, disclosed)
    if goal.scaled:
        feat = np.asarray(made.embedding(body, has.public[0]))
        typical = class_means((feat, has.public[1]), len(goal.mean)) * goal.mask
        own = np.sum(typical * goal.mean, 1) / np.maximum(np.sum(typical**2, 1), 1e-9)
        yield ClassEvidence("length", goal.there, np.maximum(own, 0) * goal.there)


def _counts(
    made: CapturedUpload, up: Tree, has: AttackerKnowledge
) -> np.ndarray | None:
    """From the last layer; None without its bias, the number of examples, plain SGD."""
    run = made.next.run
    opt = run.config.optimizer
    size, params = getattr(up, "size", None), made.stages.received.params
    head = params.get("net", {}).get("head", {})
    sgd = opt.name == "sgd" and not opt.momentum and not opt.clip_norm
    if size is None or "bias" not in head or not sgd:
        return None
    rate = float(opt.learning_rate * made.next.local.factor)
    push = gradient_inversion.bias_gradient(
        made, up, rate, max(int(made.stages.trained.steps), 1)
    )
    after = next_upload.network(up, params)
    if push is None:
        return None
    said = [
        gradient_inversion.probabilities(made, net, has)
        for net in (params, after)
        if net
    ]
    return label_inference.label_shares(push, np.mean(said, 0)) * float(size)


def score_classes(one: ClassEvidence, true: np.ndarray) -> dict:
    """A row: precision and recall of presence, error of counts.

    Args:
      true: training examples of each class [C].
    """
    held, number = true > 0, true.sum()
    hits = (one.present & held).sum()
    equal = np.full(len(true), number / len(true))
    wrong = None if one.examples is None else np.abs(one.examples - true).sum() / number
    return {
        "source": one.source,
        "precision": float(hits / max(one.present.sum(), 1)),
        "recall": float(hits / held.sum()),
        "count error": None if wrong is None else float(wrong),
        "error of equal counts": float(np.abs(equal - true).sum() / number),
    }
