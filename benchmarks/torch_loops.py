"""Local training and prototype alignment in eager PyTorch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

from benchmarks import torch_nets


class Hyper(NamedTuple):
    """Constants of the loss and the optimiser."""

    classes: int
    dim: int
    rate: float
    lam: float
    gamma: float = 1.0
    batch: int = 32


def device() -> str:
    """Returns the device of PyTorch: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def wait():
    """Waits until the GPU has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def local_training(name, shape, h: Hyper, protos, x, y, steps) -> Callable[[], None]:
    """Returns a function that trains every client for some steps.

    Args:
      name: name of the network.
      shape: shape of an image [H, W, channels].
      h: constants of the training.
      protos: upscaled global prototypes [C, D].
      x: images [K, S, B, channels, H, W] float32, all in memory.
      y: labels [K, S, B].
      steps: local steps per client.
    """
    torch_nets.check([name])
    on, protos, x = device(), torch.tensor(protos), torch.tensor(x)
    protos, x, y = protos.to(on), x.to(on), torch.tensor(y).long().to(on)
    nets = [torch_nets.build(name, shape, h.classes, h.dim).to(on) for _ in x]

    def run():
        for net, x_SB, y_SB in zip(nets, x, y, strict=True):
            optimizer = torch.optim.SGD(net.parameters(), h.rate)
            net.train()
            for x_B, y_B in zip(x_SB[:steps], y_SB[:steps], strict=True):
                feat, logits = net(x_B)
                pull = F.mse_loss(feat, protos[y_B])
                loss = F.cross_entropy(logits, y_B) + h.lam * pull
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        wait()

    return run


def align(mean: torch.Tensor, most: int = 500, patience: int = 10):
    """Aligns prototypes as the released code does (docs/decisions.md#alignment).

    Args:
      mean: prototypes [C, D].
      most: largest number of iterations.
      patience: iterations without change of the mean force, to 4 decimals, to stop at.

    Returns:
      Unit vectors [C, D], and the number of iterations.
    """
    x, speed, rate = F.normalize(mean), torch.zeros_like(mean), 0.1
    last, same, t = None, 0, -1
    for t in range(most):
        gap = x[:, None] - x[None]
        weight = 1 / (gap.square().sum(-1) + 1e-10)
        weight.fill_diagonal_(0)
        force = (gap * weight[..., None]).sum(1)
        speed = 0.9 * speed + rate * force
        x = F.normalize(x + speed)
        rate *= 0.95 if t % 10 == 0 else 1
        if t >= 10:
            length = round(force.norm(dim=1).mean().item(), 4)
            same = same + 1 if length == last else 0
            last = length
            if same >= patience:
                break
    return x, t + 1
