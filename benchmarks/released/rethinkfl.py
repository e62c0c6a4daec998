"""Released code of FPL as the other side, https://github.com/WenkeHuang/RethinkFL.

The repository has FedProc as well, whose own authors released no code. A class, which
trains the clients and is the server, comes from a checkout. It is given data and
networks.
"""

import functools
import importlib
import sys
import types
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

CLASSES = {"fedproc": "FedProc", "fpl": "FPL"}  # row -> class of the module `row`
BASE = "models.utils.federated_model"


class Network(release.Network):
    """A network whose parts have the names of the repository."""

    features = property(lambda self: self.base)
    classifier = property(lambda self: self.head)


class Loader(list):
    """Batches of a client, and where its number of examples is looked up."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        super().__init__(release.batches(x, y))
        self.sampler = Namespace(indices=np.arange(len(y)))


def begin(source: Path):
    """Makes the methods importable, without the list of them and the data sets."""
    sys.path.insert(0, str(source))
    for name in ("models", "utils.args"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["models"].__path__ = [str(source / "models")]
    sys.modules["utils.args"].ArgumentParser = ArgumentParser


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    sgd, array = torch.optim.SGD, np.array

    def array_of(items, *args, **kwargs):
        tensors = isinstance(items, list) and any(map(torch.is_tensor, items))
        return np.fromiter(items, object) if tensors else array(items, *args, **kwargs)

    with (
        # momentum is 0.9 in the release; NumPy no longer makes arrays of its tensors
        mock.patch("torch.optim.SGD", lambda params, lr, **_: sgd(params, lr)),
        mock.patch("numpy.array", array_of),
    ):
        model = federation(row, start)
        for r in range(workload.ROUNDS):
            model.epoch_index = r + 1  # FedProc's t, from 0 in the release
            train(model, workload.RATE, workload.EPOCHS)
            yield [release.flat(net) for net in model.nets_list]
            # prototypes of the trained networks; the release has the last epoch's
            train(model, 0.0, 1)
            model.global_protos = model.proto_aggregation(model.local_protos)
            model.aggregate_nets()


def train(model, rate: float, epochs: int):
    """Trains every client, which also collects its prototypes."""
    model.local_lr, model.local_epoch = rate, epochs
    for i in model.online_clients:
        model._train_net(i, model.nets_list[i], model.trainloaders[i])


def federation(row: str, start: Start):
    """Builds the server with its clients, as they are before round 1."""
    module = importlib.import_module(f"models.{row}")
    module.tqdm = functools.partial(module.tqdm, disable=True)
    nets = [Network(start.server.params["net"]) for _ in start.clients]
    args = Namespace(
        averaing="weight",
        communication_epoch=workload.PLANNED + 1,  # t goes to this number - 1
        dataset="",
        device_id=0,
        infoNCET=start.options["temperature"],
        local_epoch=workload.EPOCHS,
        local_lr=workload.RATE,
        online_ratio=1.0,
        parti_num=len(nets),
        structure="",
    )
    with (
        mock.patch(f"{BASE}.create_if_not_exists"),
        mock.patch(f"{BASE}.get_device", lambda **_: torch.device("cpu")),
    ):
        model = getattr(module, CLASSES[row])(nets, args, None)
    model.ini()
    model.online_clients = [*range(len(nets))]
    model.trainloaders = [Loader(*data) for data in start.train]
    return model
