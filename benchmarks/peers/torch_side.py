"""Networks in plain PyTorch, for the frameworks that train with it."""

import functools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers import shared
from benchmarks.peers.shared import Federation


def network(fed: Federation) -> nn.Sequential:
    """Builds the network of the workload with the initial parameters of the file."""
    net = NETWORKS[fed.settings["network"]](fed)
    with torch.no_grad():
        for own, given in zip(net.parameters(), fed.start, strict=True):
            own.copy_(torch.from_numpy(given))
    return net


def cnn4(fed: Federation) -> nn.Sequential:
    """Builds two 5x5 convolutions with ReLU and pooling, a hidden layer, a head."""
    conv1, conv2, hidden, head = fed.start[::2]
    return nn.Sequential(
        nn.Conv2d(conv1.shape[1], len(conv1), 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(len(conv1), len(conv2), 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(hidden.shape[1], len(hidden)),
        nn.ReLU(),
        nn.Linear(len(hidden), len(head)),
    )


def logistic(fed: Federation) -> nn.Sequential:
    """Builds one linear layer."""
    classes, pixels = fed.start[0].shape
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, classes))


NETWORKS = {"cnn4": cnn4, "logistic": logistic}


@functools.cache
def federation(path: str) -> Federation:
    """Reads the input file, once per process."""
    return shared.load(path)


def images(x: np.ndarray) -> torch.Tensor:
    """Converts [N, H, W, channels] uint8 to float32 [N, channels, H, W]."""
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return torch.from_numpy(shared.decode(first))


def examples(fed: Federation, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images and labels of some rows."""
    return images(fed.x[rows]), torch.from_numpy(fed.y[rows])


@torch.no_grad()
def accuracy(net: nn.Module, fed: Federation) -> float:
    """Returns the test accuracy of a network."""
    return shared.accuracy(lambda x: net(images(x)).argmax(1), fed)


def train(net: nn.Module, fed: Federation, client: int, rng: np.random.Generator):
    """Trains a network for one epoch of SGD on the images of a client, in place."""
    size, rate = fed.settings["batch_size"], fed.settings["learning_rate"]
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    x, y = examples(fed, shared.epoch(fed, client, rng))
    for x_B, y_B in zip(x.split(size), y.split(size), strict=True):
        optimizer.zero_grad()
        F.cross_entropy(net(x_B), y_B).backward()
        optimizer.step()
