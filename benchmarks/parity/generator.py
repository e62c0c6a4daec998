"""FedTGP's trainable prototypes in plain PyTorch, written from the paper.

g_j  = TGP(j), embedding -> linear -> ReLU -> linear
gap  = max_j min_k |Q_j - Q_k|_2, Q_j the mean of c_ij over the clients
loss = CE(-dist(c_ij, g), j), with min(gap, tau) added to the own distance
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.parity.rules import Rules


class Generator(nn.Module):
    """Network that generates prototypes [C, D] of all classes."""

    def __init__(self, classes: int, dim: int):
        super().__init__()
        self.embedding = nn.Embedding(classes, dim)
        self.hidden, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self):
        """Generates the prototypes."""
        return self.out(F.relu(self.hidden(self.embedding.weight)))


def of(weights: dict[str, np.ndarray], dtype) -> Generator:
    """Builds the generator with the given weights."""
    net = Generator(*weights["embedding.weight"].shape)
    net.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})
    return net.to(dtype)


def margin(mean, present, tau: float) -> float:
    """Returns the largest distance of a class [C, D] to its nearest, at most tau."""
    away = torch.cdist(
        mean[present], mean[present], compute_mode="donot_use_mm_for_euclid_dist"
    )
    away.fill_diagonal_(torch.inf)
    return min(away.min(1).values.max().item(), tau)


def train(net: Generator, rules: Rules, up, present, delta: float, order: np.ndarray):
    """Trains the generator on uploads [K, C, D] in jaxproto's order [E, K * C]."""
    proto, sent = up.flatten(0, 1), present.flatten()
    label = torch.arange(rules.classes).repeat(len(up))
    optimizer = torch.optim.SGD(net.parameters(), rules.server_rate)
    for epoch in torch.tensor(order[: rules.server_epochs]):
        for rows in epoch[: sent.sum()].split(rules.server_batch):
            c, y = proto[rows], label[rows]
            away = (c[:, None] - net()).square().sum(-1).clamp_min(1e-12).sqrt()
            own = F.one_hot(y, rules.classes)
            optimizer.zero_grad()
            F.cross_entropy(-(away + delta * own), y).backward()
            optimizer.step()
