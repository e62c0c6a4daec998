"""Inference of the classes that a client holds, and of their counts.

Threat model: an honest-but-curious server that has the upload, knows the protocol and
its own broadcast; two of the sources also need public examples and a network.

- `rows`: classes with a prototype; counts if the method discloses them.
- `length`: if a client scales rows by counts that it does not send, counts follow from
  the lengths of rows relative to those of public features in the same coordinates. The
  network is that of the client, which is the worst case.
- `chosen entries`: the sent entries of the last layer; a class counts as present if it
  has at least half as many entries as the class with most.
- `last layer`: a class counts as present if its bias increased. Shares follow from the
  mean increase and the predictions on public examples (`label_inference.py`), counts
  from the shares and the number of examples, if the upload has it.

Limits: estimates from the last layer treat many steps of plain SGD as one, and other
optimisers only show presence. The bias of a class with few examples, or that the
network knows already, hardly changes. Only rows and disclosed counts are exact. The
error of counts is the sum of absolute differences over the sum of counts; the error of
equal counts for every class is given for comparison.
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
from jaxproto.contrib.leakage.next_upload import CapturedUpload, Messages
from jaxproto.types import Client, Tree


class ClassEvidence(NamedTuple):
    """Evidence of classes from one source of an upload."""

    source: str
    present: np.ndarray  # [C] bool
    examples: np.ndarray | None = None  # [C] counts; None if unknown


def class_evidence(
    captured: CapturedUpload, messages: Messages, known: AttackerKnowledge, body: Client
) -> list[ClassEvidence]:
    """Returns the evidence of every source in the messages that the server received."""
    evidence = [*_of_rows(captured, messages, known, body)]
    head = head_change.head_change(captured, messages[1])
    if head is None:
        return evidence
    if head.chosen:
        present = head.sent >= head.sent.max() / 2
        evidence.append(ClassEvidence("chosen entries", present))
    count = None if head.chosen else _counts(captured, messages[1], known)
    return [*evidence, ClassEvidence("last layer", head.bias > 0, count)]


def _of_rows(captured, messages, known, body):
    protos = next_upload.as_server_reads(captured, messages)
    target = prototype_inversion.prototype_target(captured, messages)
    if protos is None or target is None:
        return
    disclosed = np.asarray(protos.count, float) if protos.disclosed else None
    yield ClassEvidence("rows", target.present, disclosed)
    if target.scaled:
        feat = np.asarray(captured.embedding(body, known.public[0]))
        typical = class_means((feat, known.public[1]), len(target.mean)) * target.mask
        square = np.maximum(np.sum(typical**2, 1), 1e-9)
        lengths = np.maximum(np.sum(typical * target.mean, 1) / square, 0)
        yield ClassEvidence("length", target.present, lengths * target.present)


def _counts(
    captured: CapturedUpload, up: Tree, known: AttackerKnowledge
) -> np.ndarray | None:
    """Returns counts from the last layer; None without bias, size or plain SGD."""
    run = captured.next.run
    opt = run.config.optimizer
    size, params = getattr(up, "size", None), captured.stages.received.params
    head = params.get("net", {}).get("head", {})
    sgd = opt.name == "sgd" and not opt.momentum and not opt.clip_norm
    if size is None or "bias" not in head or not sgd:
        return None
    rate = float(opt.learning_rate * captured.next.local.factor)
    steps = max(int(captured.stages.trained.steps), 1)
    push = gradient_inversion.bias_gradient(captured, up, rate, steps)
    after = next_upload.network(up, params)
    if push is None:
        return None
    networks = [net for net in (params, after) if net]
    probabilities = [
        gradient_inversion.probabilities(captured, net, known) for net in networks
    ]
    return label_inference.label_shares(push, np.mean(probabilities, 0)) * float(size)


def score_classes(evidence: ClassEvidence, true: np.ndarray) -> dict:
    """Returns a row with precision and recall of presence, and the error of counts.

    Args:
      true: Training examples of each class [C].
    """
    held, total = true > 0, true.sum()
    hits = (evidence.present & held).sum()
    equal = np.full(len(true), total / len(true))
    error = None
    if evidence.examples is not None:
        error = float(np.abs(evidence.examples - true).sum() / total)
    return {
        "source": evidence.source,
        "precision": float(hits / max(evidence.present.sum(), 1)),
        "recall": float(hits / held.sum()),
        "count error": error,
        "error of equal counts": float(np.abs(equal - true).sum() / total),
    }
