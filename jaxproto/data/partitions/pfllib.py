"""Partitions of PFLlib and HtFLlib, bit for bit, from numpy's legacy stream.

Zhang et al., "PFLlib: A Beginner-Friendly and Comprehensive Personalized Federated
Learning Library and Benchmark", JMLR 2025, https://arxiv.org/abs/2312.04992. The papers
T and N use these partitions. docs/decisions.md#partition has the recipe.

Deviations:
  code: draws without limit until every client has `least_samples`. Here: at most
    `max_tries` draws, then an error (a repaired partition would not be PFLlib's).
  code: weights that are all zero give NaN cuts, so that the last client gets the whole
    class. Here: the same result without NaN.
  code: least_samples 1 (FedTGP, T, N); newer PFLlib 40. Here: an argument.
"""

import math

import numpy as np

from jaxproto import errors
from jaxproto.data.partitions import label_skew


def pfllib_dirichlet(
    alpha: float, *, least_samples: int = 1, max_tries: int = 1_000
) -> label_skew.Scheme:
    """Divides each class by Dirichlet(alpha) as PFLlib does.

    CIFAR-10 at alpha 0.01 and seed 1 takes 37 tries.
    """

    def assign(y_N, num_classes, clients, rng):
        rows_C = label_skew.rows_by_class(y_N, num_classes)
        best = 0
        for _ in range(max_tries):
            drawn, cuts, size_K = _draw(rows_C, len(y_N) / clients, clients, alpha, rng)
            if size_K.min() >= least_samples:
                client_rows = map(np.split, drawn, cuts)
                return [
                    np.concatenate(parts) for parts in zip(*client_rows, strict=True)
                ]
            best = max(best, size_K.min())
        raise errors.UserError(
            f"partition pfllib with data.alpha={alpha}: {max_tries} draws gave none in "
            f"which each of {clients} clients has {least_samples} of the {len(y_N)} "
            f"examples (in the best one a client has {best}). Use fewer clients, a "
            "larger data.alpha, or 'dirichlet', which tops up the poorest clients."
        )

    return label_skew.Scheme(
        assign,
        np.random.RandomState,
        least=least_samples,
        field="data.least_samples",
    )


def _draw(rows_C, fair_share, clients, alpha, rng):
    """Returns the shuffled rows of each class, their cuts, and the clients' sizes."""
    drawn, cuts, size_K = [], [], np.zeros(clients, int)
    for rows in rows_C:
        rows = rows.copy()
        rng.shuffle(rows)
        share_K = rng.dirichlet(np.repeat(alpha, clients)) * (size_K < fair_share)
        total = share_K.sum()
        cut_K = np.zeros(clients)
        if total > 0:
            cut_K = np.cumsum(share_K / total) * len(rows)
        drawn.append(rows)
        cuts.append(cut_K.astype(int)[:-1])  # the last client takes the rest
        size_K += np.diff(cuts[-1], prepend=0, append=len(rows))
    return drawn, cuts, size_K


def pfllib_pathological(
    classes_per_client: int, *, least_samples: int = 1
) -> label_skew.Scheme:
    """Gives each client some classes as PFLlib does, in uneven sizes without shuffling.

    If clients * classes_per_client is no multiple of the number of classes, the last
    classes may have no client (GTSRB: 43 classes, 20 clients with 4 classes each).
    """

    def assign(y_N, num_classes, clients, rng):
        label_skew.check_classes(num_classes, classes_per_client)
        least = least_samples / num_classes
        owners = math.ceil(clients / num_classes * classes_per_client)
        left_K = np.full(clients, classes_per_client)
        client_rows = [[np.empty(0, int)] for _ in range(clients)]
        for c, rows in enumerate(label_skew.rows_by_class(y_N, num_classes)):
            owner_S = np.flatnonzero(left_K > 0)[:owners]
            if len(owner_S) == 0:
                break
            cut_S = np.cumsum(_amounts(c, len(rows), len(owner_S), least, rng))
            for owner, part in zip(owner_S, np.split(rows, cut_S), strict=True):
                client_rows[owner].append(part)
            left_K[owner_S] -= 1
        return [np.concatenate(parts) for parts in client_rows]

    return label_skew.Scheme(assign, np.random.RandomState)


def _amounts(c, examples, owners, least, rng):
    """Draws the examples of class c for its owners; the last owner gets the rest."""
    fair = examples / owners
    low, high = int(max(fair / 10, least)), int(fair)
    if low >= high and owners > 1:
        raise errors.UserError(
            f"class {c} has {examples} examples for {owners} clients, too few to draw "
            f"an amount of at least {low} for each. Use fewer clients, a smaller "
            "data.classes_per_client or data.least_samples, or 'pathological'."
        )
    return rng.randint(low, max(high, low + 1), owners - 1)
