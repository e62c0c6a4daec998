"""Inference of the example that a client gains between two rounds, from prototypes.

Threat model: a server that repeats its broadcast, knows the number m of examples of the
class in the first of the two rounds, has public images, and has the client's network
after each round (`body=own`) or another client's. Let p and p' be the prototypes of the
class in the two rounds. Their sums over examples differ by one example x:

    f(x) ~ (m + 1) p' - m (p + drift)

The drift is the mean change of the features of public images of the class between the
two networks. Every class with two examples or more gains one.

The difference is compared with candidates, as in `membership.py`, and inverted, as in
`prototype_inversion.py`. The AUC of the second round alone is given for comparison.

Limits: m multiplies the error of the drift, so large classes and high learning rates
hide the example. Rows scaled by counts that are not sent are left out.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from jaxproto.attacks.leakage import (
    attack_cases,
    membership,
    next_upload,
    prototype_inversion,
    scores,
)
from jaxproto.attacks.leakage.attack_cases import (
    AttackCase,
    AttackRequest,
    AttackResult,
)
from jaxproto.attacks.leakage.attacker import class_means, examples
from jaxproto.attacks.leakage.next_upload import NextRound


def attack_joined(
    next: NextRound, request: AttackRequest, ids: Sequence[int]
) -> Iterator[tuple[AttackCase, AttackResult]]:
    """Finds the example that every class of a client gains between two rounds."""
    for id in ids:
        rows = next.run.exp.partition.train[id]
        gained = gained_rows(next.run.exp.dataset.y[rows], rows)
        first = next_upload.upload(next, id, rows=np.setdiff1d(rows, gained))
        second = next_upload.upload(next, id, client=first.stages.trained)
        bodies = [
            attack_cases.attacker_network(c, request.body) for c in (first, second)
        ]
        with_other_noise = request._replace(seed=request.seed + 1)
        before = attack_cases.cases_of(first, bodies[0], with_other_noise)
        after = attack_cases.cases_of(second, bodies[1], request)
        for pair in zip(before, after, strict=True):
            result = compare(*pair, gained)
            if result is not None:
                yield result


def gained_rows(y_M: np.ndarray, rows_M: np.ndarray) -> np.ndarray:
    """Returns the last row of every class with two examples or more."""
    by_class = [rows_M[y_M == c] for c in np.unique(y_M)]
    return np.array([own[-1] for own in by_class if len(own) > 1], int)


def compare(
    before: AttackCase, after: AttackCase, gained: np.ndarray
) -> tuple[AttackCase, AttackResult] | None:
    """Compares the difference of two uploads with candidates; None without rows.

    Args:
      gained: Rows of the data, of one example per class.
    """
    old, new = (prototype_inversion.prototype_target(case) for case in (before, after))
    if old is None or new is None or new.scaled:
        return None
    embedding = after.captured.embedding
    (x, y), (public_x, public_y) = examples(after.exp, gained), after.known.public
    features = [np.asarray(embedding(c.body, public_x)) for c in (before, after)]
    drift_CD = class_means((features[1] - features[0], public_y), len(new.mean))
    m_C1 = np.bincount(after.known.training[1], minlength=len(new.mean))[:, None] - 1
    joined = new._replace(mean=(m_C1 + 1) * new.mean - m_C1 * (old.mean + drift_CD))
    others_x, others_y = after.known.outsiders
    in_classes = np.isin(others_y, y)
    known = after.known._replace(
        members=(x, y),
        outsiders=(others_x[in_classes], others_y[in_classes]),
        ids=(gained, after.known.ids[1][in_classes]),
    )
    case = after._replace(known=known)
    joined_scores, single_scores = (
        membership.by_target(case, t) for t in (joined, new)
    )
    public = class_means(after.known.public, len(new.mean))
    images, _ = prototype_inversion.optimise_images(
        embedding, after.body, joined.mean, joined.mask, public
    )
    inverted = np.asarray(images)[y]
    row = {
        "AUC": scores.auc(*joined_scores),
        "AUC of one round": scores.auc(*single_scores),
        "psnr": scores.psnr(inverted, x),
        "psnr of public mean": scores.psnr(public[y], x),
    }
    shown = {"client's": x, "public mean": public[y], "found": inverted}
    return case, AttackResult([row], (shown, y), joined_scores)
