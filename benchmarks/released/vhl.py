"""Released code of VHL as the other side, https://github.com/wizard1203/VHL.

Its clients, their trainer and its server come from a checkout. They are given data and
initial networks, and one batch of virtual images that both sides see in every step.
"""

import importlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import torch
from torch import nn

from benchmarks.released import release, workload
from benchmarks.released.ours import Start
from jaxproto.core.types import Tree
from jaxproto.methods import vhl

CLASSES = ("vhl",)
LEFT_OUT = (  # modules for files, records and tables
    "data_preprocessing.build",
    "data_preprocessing.loader",
    "model.build",
    "numpy.core.getlimits",
    "pandas",
    "utils.tracker",
    "wandb",
    "yacs",
    "yacs.config",
)
OPTIONS = {  # option of jaxproto -> of the release
    "align": "VHL_feat_align_inter_cls_weight",
    "contrast": "VHL_noise_supcon_weight",
    "virtual": "VHL_alpha",
}
SETTINGS = {  # of VHL_alignNoiseContrast.sh, and of our data
    "VHL": True,
    "VHL_data": "dataset",
    "VHL_data_re_norm": False,
    "VHL_dataset_batch_size": workload.BATCH,
    "VHL_feat_align": True,
    "VHL_feat_detach": True,
    "VHL_label_from": "dataset",
    "VHL_noise_contrastive": True,
    "dataset": "mnist",  # one channel
    "global_epochs_per_round": workload.EPOCHS,
    "model_out_feature": True,
    "num_classes": workload.CLASSES,
    "sched": "no",
}


class Network(release.Network):
    """Network with outputs of virtual classes, for pixels in three equal channels."""

    def __init__(self, params: Tree):
        super().__init__(params["net"])
        self.virtual = release.linear(**params["virtual"])

    def forward(self, x):
        """Returns logits [B, C + V] and features [B, D]."""
        feat = self.base(x[:, :1])
        return torch.cat([self.head(feat), self.virtual(feat)], 1), feat


class Loader(list):
    """Batches whose iterator has `next`, as those of PyTorch 1 have."""

    def __iter__(self):
        self.left = super().__iter__()
        return self

    def __next__(self):
        return next(self.left)

    next = __next__


def begin(source: Path):
    """Makes the release's modules importable, without those that it can do without."""
    release.importable(source, LEFT_OUT, CfgNode=Namespace)


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    server, clients = federation(start)
    params = server.get_global_model_params()
    for r in range(workload.ROUNDS):
        for i in server.client_sampling(r, len(clients), len(clients)):
            noise = vars(server.trainer)
            trained = clients[i].algorithm_on_train({}, i, params, "model", noise)
            server.add_local_trained_result(i, *trained[:4])
        yield [release.flat(client.trainer.model) for client in clients]
        params, *_ = server.aggregate()


def federation(start: Start):
    """Builds the server and its clients, as they are before round 1."""
    folder = "algorithms_standalone.fedavg"
    server = importlib.import_module(f"{folder}.aggregator").FedAVGAggregator
    client = importlib.import_module(f"{folder}.client").FedAVGClient
    train = {i: Loader(release.batches(*d)) for i, d in enumerate(start.train)}
    sizes = {i: len(y) for i, (_, y) in enumerate(start.train)}
    own = train, sizes, train, sum(sizes.values())
    clients = [
        client(i, *own, *made(start, "client", params))
        for i, params in enumerate(start.clients)
    ]
    every = None, None, sum(sizes.values()), train, train, sizes, len(train)
    return server(*every, *made(start, "server", start.server)), clients


def made(start: Start, role: str, params: Tree) -> tuple:
    """Returns a device, settings, a trainer, and neither a clock nor metrics."""
    trainers = importlib.import_module("trainers.normal_trainer")
    trainers.VHL_load_dataset = lambda _: virtual_data(start)
    args, net = arguments(start), Network(params)
    groups = [{"name": "all", "params": [*net.parameters()]}]
    optimizer, loss = torch.optim.SGD(groups, workload.RATE), nn.CrossEntropyLoss()
    trainer = trainers.NormalTrainer(
        net, "cpu", loss, optimizer, None, args, role=role, server_index=0
    )
    return "cpu", args, trainer, None, mock.MagicMock()


def arguments(start: Start) -> Namespace:
    """Returns the settings of the release with the options of jaxproto."""
    default = vars(importlib.import_module("configs.default")._C)
    changed = {OPTIONS[k]: v for k, v in start.options.items() if k in OPTIONS}
    return Namespace(**{**default, **SETTINGS, **changed})


def virtual_data(start: Start) -> tuple[dict, dict, dict, dict]:
    """Returns what the release loads: loaders of training and test, their data."""
    fields = start.options["virtual_seed"], workload.CLASSES, start.options["images"]
    x, v = vhl.VirtualData(*fields).draw(
        jax.random.key(0), (workload.BATCH, *workload.SHAPE)
    )
    x = torch.tensor(np.asarray(x)).reshape(-1, 1, 8, 8).expand(-1, 3, -1, -1)
    loader = Loader([(x, torch.tensor(np.asarray(v)).long())])
    return {"noise": loader}, {}, {"noise": Namespace(class_num=workload.CLASSES)}, {}
