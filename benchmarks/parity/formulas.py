"""Equations in PyTorch, and the batches of a client."""

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.parity.rules import Rules
from benchmarks.torch_loops import align

SWEEP = 256  # examples at a time, without gradients


def steps(order: np.ndarray, size: int, rules: Rules):
    """Positions [B] of every step, and which count.

    Whole batches of every epoch; a client below one batch repeats its examples, which
    then do not count.
    """
    for epoch in order:
        for s in range(max(size // rules.batch, 1)):
            at = s * rules.batch + np.arange(rules.batch)
            position = at % size
            yield (epoch[position] if rules.order == "given" else position), at < size


def chunks(rows: np.ndarray):
    """The rows, some at a time."""
    return (rows[i : i + SWEEP] for i in range(0, len(rows), SWEEP))


def pull(reg: str, feat, y, protos, weight) -> torch.Tensor:
    """The pull of features [B, D] towards prototypes [C, D], NaN where none is.

    Args:
      weight: of the classes [C].
    """
    here = ~protos[:, 0].isnan()
    if reg == "l2_of_means":  # Eq. 5 on a batch: sum over its classes
        there = [j for j in y.unique() if here[j]]
        each = [weight[j] * (feat[y == j].mean(0) - protos[j]).norm() for j in there]
        return sum(each, start=feat.new_zeros(()))
    target = torch.where(here[y, None], protos[y], feat.detach())
    squared = F.mse_loss(feat, target, reduction="none").mean(1) @ weight[y] / len(y)
    return squared * feat.shape[1] if reg == "sq_l2_mean" else squared


def add(sums, counts, feat, y):
    """Adds a batch to the sums per class, in place."""
    sums.index_add_(0, y, feat)
    counts += y.bincount(minlength=len(counts))


def class_means(sums, counts) -> torch.Tensor:
    """Prototypes [C, D], NaN where there is no example."""
    return sums / counts[:, None]  # 0 / 0


def mean_of(how: str, local, counts) -> torch.Tensor:
    """Mean over clients [K, C, D] of prototypes, NaN where nobody has any."""
    held = counts > 0
    weight = (held if how == "mean_over_clients" else counts).to(local.dtype)
    total = (weight[..., None] * local.nan_to_num(0)).sum(0)
    mean = total / weight.sum(0)[:, None]  # Eq. 7: plain
    return mean / held.sum(0)[:, None] if how == "as_printed" else mean  # Eq. 3


def aligned(mean, rules: Rules):
    """The mean after the alignment of the classes that are there, and iterations."""
    here, found = ~mean[:, 0].isnan(), mean.clone()
    if not rules.iterations:
        return found, 0
    found[here], iterations = align(mean[here], rules.iterations, rules.patience)
    return found, iterations


def nearness(feat, protos) -> torch.Tensor:
    """Minus the mean squared distances [B, C]; -inf where there is no prototype."""
    distance = torch.stack([(feat - p).square().mean(-1) for p in protos], 1)
    return -distance.nan_to_num(torch.inf)
