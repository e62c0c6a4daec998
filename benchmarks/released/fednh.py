"""Released code of FedNH's authors as the other side.

Its classes come from a checkout of https://github.com/Yutong-Dai/FedNH, which imports
torchvision, matplotlib and tqdm. A perceptron replaces the backbone of their ResNet,
whose scale starts at 20. W and the scale are not in the networks that are compared, but
the next round shows them.
"""

import copy
import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

begin = release.importable
CLASSES = ("fednh",)
CONFIG = {  # of clients and server
    "FedNH_client_adv_prototype_agg": False,
    "FedNH_fix_scaling": False,
    "FedNH_head_init": "orthogonal",
    "FedNH_return_embedding": False,
    "FedNH_server_adv_prototype_agg": False,
    "batch_size": workload.BATCH,
    "client_lr": workload.RATE,
    "client_lr_scheduler": "diminishing",
    "global_seed": 0,
    "lr_decay_per_round": 1.0,
    "model": "ResNetMod",
    "no_norm": False,
    "num_classes": workload.CLASSES,
    "optimizer": "SGD",
    "sgd_momentum": 0.0,
    "sgd_weight_decay": 0.0,
}


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    module = importlib.import_module("src.flbase.strategies.FedNH")
    body = start.server.body  # what clients receive in round 1
    nets = [release.Network({**c["net"], "body": body}) for c in start.clients]
    every = zip(nets, start.train, strict=True)
    clients = [client(module.FedNHClient, net, data) for net, data in every]
    state = copy.deepcopy(clients[0].get_params())
    state["prototype"] = torch.tensor(start.server.heads)
    server = object.__new__(module.FedNHServer)
    server.__dict__.update(
        clients_dict=clients,
        exclude_layer_keys=set(),
        server_config={
            **CONFIG,
            "FedNH_smoothing": start.options["rho"],
            "learning_rate": start.options["server_rate"],
        },
        server_model_state_dict=state,
    )
    for r in range(1, workload.ROUNDS + 1):
        for one in clients:
            one.set_params(server.server_model_state_dict, set())
            one.training(r, workload.EPOCHS)
        yield [release.flat(net) for net in nets]
        server.aggregate([one.upload() for one in clients], r)


def client(make, net: release.Network, data: tuple[np.ndarray, np.ndarray]):
    """Builds a client that trains the body of `net` on batches in their order."""
    body = net.base
    body.linear, body.activation = SimpleNamespace(in_features=workload.DIM), None
    train = TensorDataset(*release.tensors(*data))
    train.targets = train.tensors[1]
    with mock.patch("src.flbase.models.CNN.ResNet18", lambda num_classes: body):
        made = make(nn.CrossEntropyLoss(), train, None, CONFIG, 0, "cpu")
    made.trainloader = DataLoader(train, workload.BATCH)
    return made
