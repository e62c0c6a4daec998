"""Released code of FedPCL as the other side, https://github.com/yuetan031/FedPCL.

Its training comes from a checkout and runs as a whole. It is given data, initial
networks in place of its projections, and SGD without momentum. Its own local loss is
another one: that of `jaxproto/methods/fedpcl.py` stands in for it (`Loss`).
"""

import importlib
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

CLASSES = ("fedpcl",)
LEFT_OUT = (  # data sets, pre-trained networks, figures and the command line
    "data_utils",
    "matplotlib.pyplot",
    "models.models",
    "models.multibackbone",
    "models.resnet",
    "models.vision_transformer",
    "options",
    "pandas",
    "sampling",
    "seaborn",
    "tensorboardX",
    "torchvision",
    "tqdm",
)
SETTINGS = Namespace(
    add_noise_img=0,
    add_noise_proto=0,
    alg="fedpcl",
    device="cpu",
    local_bs=workload.BATCH,
    lr=workload.RATE,
    num_users=len(workload.SIZES),
    optimizer="sgd",
    rounds=workload.ROUNDS,
    train_ep=workload.EPOCHS,
    verbose=0,
)


def begin(source: Path):
    """Makes the training importable, without the modules that it does not use."""
    for folder in ("exps", "lib"):
        release.importable(source / folder, LEFT_OUT, tqdm=iter)


def rounds(row: str, start: Start) -> list[list[np.ndarray]]:
    """Returns the clients' networks [P] after the local training of every round."""
    main, update = map(importlib.import_module, ("federated_main", "update"))
    nets = [Projection(params["net"]) for params in start.clients]
    loss, made = Loss(start.options["temperature"], main.proto_aggregation), []

    def aggregate(protos):
        made.append([release.flat(net) for net in nets])
        return loss.aggregate(protos)

    views = [release.tensors(*data) for data in start.train]  # both views are the same
    data = [[((a, a), b) for a, b in zip(x, y, strict=True)] for x, y in views]
    rows, sgd = [range(len(part)) for part in data], torch.optim.SGD
    test = {"return_value.test_inference_twoway.return_value": (0, 0)}
    with (
        mock.patch.object(main, "LocalTest", mock.MagicMock(**test)),
        mock.patch.object(main, "proto_aggregation", aggregate),
        mock.patch.object(update, "ConLoss", lambda **_: loss),
        mock.patch.object(update, "DataLoader", in_order),
        mock.patch("torch.optim.SGD", lambda params, lr, **_: sgd(params, lr)),
    ):
        fixed = [nn.Identity()]
        main.FedPCL(SETTINGS, mock.MagicMock(), data, data, rows, rows, fixed, nets)
    return made


def in_order(data, batch_size: int, **_) -> DataLoader:
    """Loads examples in their order."""
    return DataLoader(data, batch_size)


class Projection(release.Network):
    """Network with the outputs of FedPCL's projections."""

    def forward(self, x):
        """Returns log-probabilities [B, C] and features of length 1 [B, D]."""
        feat_BD = functional.normalize(self.base(x))
        return functional.log_softmax(self.head(feat_BD), 1), feat_BD


class Loss:
    """L_g + L_p, a share of it for the prototypes of each client."""

    def __init__(self, temperature: float, aggregate: Callable):
        self.temperature, self.mean_of = temperature, aggregate

    def aggregate(self, protos):
        """Keeps the global prototypes, for L_g."""
        self.mean = self.mean_of(protos)
        return self.mean

    def __call__(self, feat_BVD, y_B, protos):
        """Returns (L_g + the summand of L_p) / clients; the release adds these up."""
        near = [self.near(feat_BVD[:, 0], y_B, own) for own in (self.mean, protos)]
        return sum(near) / len(workload.SIZES)

    def near(self, feat_BD, y_B, protos):
        """Returns the cross-entropy of products with prototypes."""
        mean_CD = torch.stack([protos[c] for c in range(workload.CLASSES)])
        return functional.cross_entropy(feat_BD @ mean_CD.T / self.temperature, y_B)
