"""Equations in PyTorch, and the batches of a client."""

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.parity.rules import Rules
from benchmarks.torch_loops import align

SWEEP = 256  # examples at a time, without gradients


def steps(order: np.ndarray, size: int, rules: Rules):
    """Yields the positions [B] of every step, and which of them count.

    Every epoch has whole batches. A client with less than a batch repeats its examples,
    and the repetitions do not count.
    """
    for epoch in order:
        for s in range(max(size // rules.batch, 1)):
            at = s * rules.batch + np.arange(rules.batch)
            position = at % size
            yield (epoch[position] if rules.order == "given" else position), at < size


def chunks(rows: np.ndarray):
    """Splits rows into chunks of SWEEP."""
    return (rows[i : i + SWEEP] for i in range(0, len(rows), SWEEP))


def pull(reg: str, feat, y, protos, weight) -> torch.Tensor:
    """Returns the term that pulls features [B, D] towards prototypes [C, D].

    Args:
      reg: form of the term.
      feat: features [B, D].
      y: labels [B].
      protos: prototypes [C, D], NaN where there is none.
      weight: weights of the classes [C].
    """
    present = ~protos[:, 0].isnan()
    if reg == "l2_of_means":  # Eq. 5 on a batch: sum over its classes
        known = [j for j in y.unique() if present[j]]
        gaps = [weight[j] * (feat[y == j].mean(0) - protos[j]).norm() for j in known]
        return sum(gaps, start=feat.new_zeros(()))
    target = torch.where(present[y, None], protos[y], feat.detach())
    squared = F.mse_loss(feat, target, reduction="none").mean(1) @ weight[y] / len(y)
    return squared * feat.shape[1] if reg == "sq_l2_mean" else squared


def add(sums, counts, feat, y):
    """Adds a batch to the sums per class, in place."""
    sums.index_add_(0, y, feat)
    counts += y.bincount(minlength=len(counts))


def class_means(sums, counts) -> torch.Tensor:
    """Returns prototypes [C, D], NaN where there is no example."""
    return sums / counts[:, None]  # 0 / 0 is NaN


def mean_of(rule: str, local, counts) -> torch.Tensor:
    """Averages prototypes [K, C, D] over clients, NaN where no client has any."""
    present = counts > 0
    weight = (present if rule == "mean_over_clients" else counts).to(local.dtype)
    total = (weight[..., None] * local.nan_to_num(0)).sum(0)
    mean = total / weight.sum(0)[:, None]  # Eq. 7: plain
    return mean / present.sum(0)[:, None] if rule == "as_printed" else mean  # Eq. 3


def aligned(mean, rules: Rules):
    """Aligns the classes that have a prototype; returns all and the iterations."""
    present, protos = ~mean[:, 0].isnan(), mean.clone()
    if not rules.iterations:
        return protos, 0
    protos[present], iterations = align(mean[present], rules.iterations, rules.patience)
    return protos, iterations


def nearness(feat, protos) -> torch.Tensor:
    """Returns minus mean squared distances [B, C], -inf without a prototype."""
    distance = torch.stack([(feat - p).square().mean(-1) for p in protos], 1)
    return -distance.nan_to_num(torch.inf)
