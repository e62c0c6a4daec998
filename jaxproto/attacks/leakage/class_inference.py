"""Inference of the classes that a client holds, and of their counts.

Threat model: an honest-but-curious server that has the upload, knows the protocol and
its own broadcast. Counts from `length` and `last layer` also need public examples and a
network.

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

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jaxproto.attacks.leakage import (
    head_change,
    label_inference,
    next_upload,
    prototype_inversion,
)
from jaxproto.attacks.leakage.attack_cases import AttackCase, AttackResult
from jaxproto.attacks.leakage.attacker import class_means
from jaxproto.attacks.leakage.head_change import HeadChange


class ClassEvidence(NamedTuple):
    """Evidence of classes from one source of an upload."""

    source: str
    present: np.ndarray  # [C] bool
    examples: np.ndarray | None = None  # [C] counts; None if unknown


def attack_classes(case: AttackCase) -> Iterator[AttackResult]:
    """Infers which classes a client holds, and their counts."""
    true = case.exp.counts.train[case.captured.id]
    if rows := [score_classes(evidence, true) for evidence in class_evidence(case)]:
        yield AttackResult(rows)


def class_evidence(case: AttackCase) -> Iterator[ClassEvidence]:
    """Yields the evidence of every source in the messages that the server received."""
    yield from _evidence_of_rows(case)
    head = head_change.head_change(case.captured, case.messages[1])
    if head is None:
        return
    if head.chosen:
        yield ClassEvidence("chosen entries", head.sent >= head.sent.max() / 2)
    count = None if head.chosen else _counts(case, head)
    yield ClassEvidence("last layer", head.bias > 0, count)


def _evidence_of_rows(case: AttackCase) -> Iterator[ClassEvidence]:
    target = prototype_inversion.prototype_target(case)
    if target is None:
        return
    yield ClassEvidence("rows", target.present, target.counts)
    if target.scaled:
        x, y = case.known.public
        feat = np.asarray(case.captured.embedding(case.body, x))
        typical = class_means((feat, y), len(target.mean)) * target.mask
        square = np.maximum(np.sum(typical**2, 1), 1e-9)
        lengths = np.maximum(np.sum(typical * target.mean, 1) / square, 0)
        yield ClassEvidence("length", target.present, lengths * target.present)


def _counts(case: AttackCase, change: HeadChange) -> np.ndarray | None:
    """Returns counts from the last layer; None without bias, size or plain SGD."""
    captured, up = case.captured, case.messages[1]
    opt = captured.next.run.config.optimizer
    size, params = getattr(up, "size", None), captured.stages.received.params
    head = params.get("net", {}).get("head", {})
    sgd = opt.name == "sgd" and not opt.momentum and not opt.clip_norm
    if size is None or "bias" not in head or not sgd:
        return None
    push = head_change.push(
        captured, change, max(int(captured.stages.trained.steps), 1)
    )
    networks = filter(None, (params, next_upload.network(captured, up)))
    predicted = [label_inference.predictions(case, net) for net in networks]
    return label_inference.label_shares(push, np.mean(predicted, 0)) * float(size)


def score_classes(evidence: ClassEvidence, true: np.ndarray) -> dict:
    """Returns a row with precision and recall of presence, and the error of counts.

    Args:
      true: Training examples of each class [C].
    """
    held, total = true > 0, true.sum()
    hits = (evidence.present & held).sum()
    equal_counts = np.full(len(true), total / len(true))
    error = None
    if evidence.examples is not None:
        error = float(np.abs(evidence.examples - true).sum() / total)
    return {
        "source": evidence.source,
        "precision": float(hits / max(evidence.present.sum(), 1)),
        "recall": float(hits / held.sum()),
        "count error": error,
        "error of equal counts": float(np.abs(equal_counts - true).sum() / total),
    }
