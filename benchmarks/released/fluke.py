"""Released code of fluke as the other side, https://github.com/makgyver/fluke.

The authors of FedHP wrote it. Its classes come from a checkout. They are given data and
initial networks, and exchange their messages. Prototypes are trained by the SGD of the
network in place of fluke's Adam, and the same numbers are drawn for the first anchors.
"""

import importlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

CLASSES = ("fedhp",)
LEFT_OUT = (  # modules that the method does not use
    "cerberus",
    "clearml",
    "datasets",
    "diskcache",
    "omegaconf",
    "omegaconf.dictconfig",
    "omegaconf.listconfig",
    "pandas",
    "psutil",
    "seaborn",
    "torch.utils.tensorboard",
    "torchmetrics",
    "wandb",
)


def begin(source: Path):
    """Makes fluke importable, without the modules that FedHP does not use."""
    release.importable(source, LEFT_OUT, DictConfig=dict, ListConfig=list)


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    fedhp = importlib.import_module("fluke.algorithms.fedhp")
    fedhp.optim = Namespace(
        Adam=lambda params, lr: torch.optim.SGD(params, workload.RATE)
    )
    nets = [release.Network(params["net"]) for params in start.clients]
    clients = [client(fedhp, start, i, net.base) for i, net in enumerate(nets)]
    sizes = {"n_protos": workload.CLASSES, "embedding_size": workload.DIM}
    server = fedhp.FedHPServer(nets[0].base, None, clients, **sizes)
    draw = np.random.default_rng(0).uniform(size=(workload.CLASSES, workload.DIM))
    drawn = torch.tensor(draw, requires_grad=True)
    with mock.patch("torch.rand", lambda *_, **__: drawn):
        anchors = server._hyperspherical_embedding().float()
    server._hyperspherical_embedding = lambda: anchors
    server._broadcast_anchors()
    for one in clients:
        one.set_channel(server.channel)
    for r in range(workload.ROUNDS):
        server.broadcast_model(clients)
        for one in clients:
            one.local_update(r + 1)
        yield [release.flat(net) for net in nets]
        server.aggregate(clients, server.receive_client_models(clients))


def client(fedhp, start: Start, i: int, body: nn.Module):
    """Builds client `i`, whose network has no head."""
    data = fedhp.FastDataLoader(
        *release.tensors(*start.train[i]),
        num_labels=workload.CLASSES,
        batch_size=workload.BATCH,
    )
    return fedhp.FedHPClient(
        index=i,
        model=body,
        train_set=data,
        test_set=None,
        optimizer_cfg=fedhp.OptimizerConfigurator({"name": "SGD", "lr": workload.RATE}),
        loss_fn=nn.CrossEntropyLoss(),
        local_epochs=workload.EPOCHS,
        n_protos=workload.CLASSES,
        lam=start.options["anchoring"],
    )
