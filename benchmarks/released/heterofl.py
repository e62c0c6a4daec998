"""Released code of HeteroFL as the other side, whose repository `--help` names.

It divides the network, trains the parts and combines them, each by its own function. It
is given data and a perceptron. Its options switch off what jaxproto leaves out: scaler
and masked cross-entropy. It also has jaxproto's clients with all classes, as it
combines a class's row of the head over the clients that have the class.
"""

import contextlib
import importlib
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks.released import release, workload
from benchmarks.released.ours import Start
from jaxproto.models import to_torch

CLASSES = ("heterofl",)
LEFT_OUT = ("data", "logger", "metrics", "torchvision", "torchvision.utils")
CONTROL = {  # widths of 1, 1/2 and 1/4
    "fed": 1,
    "num_users": len(workload.SIZES),
    "frac": 1,
    "data_split_mode": "iid",
    "model_split_mode": "fix",
    "model_mode": "a1-b1-c1",
    "norm": "none",
    "scale": 0,
    "mask": 0,
}
OPTIONS = {
    "classes_size": workload.CLASSES,
    "device": "cpu",
    "model_name": "conv",
    "momentum": 0.0,
    "num_epochs": {"local": workload.EPOCHS},
    "weight_decay": 0.0,
}


def begin(source: Path):
    """Makes the library importable, without its data, logs and metrics."""
    release.importable(source / "src", LEFT_OUT)
    with contextlib.chdir(source / "src"), mock.patch("sys.argv", [""]):
        side = importlib.import_module("train_classifier_fed")
    side.cfg.update(control=CONTROL, data_name="MNIST")
    importlib.import_module("utils").process_control()
    side.cfg.update(OPTIONS)
    side.models = SimpleNamespace(conv=network)
    side.collate = side.make_data_loader = dict  # batches as they are
    side.SplitDataset = lambda dataset, client: dataset[client]


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P], 0 outside their parts, after every round."""
    side = importlib.import_module("train_classifier_fed")
    weights = to_torch(start.server.params["net"], {})
    net = network()
    given = {f"blocks.{name}": torch.tensor(a) for name, a in weights.items()}
    net.load_state_dict(given, strict=False)
    classes, clients = workload.CLASSES, len(workload.SIZES)
    labels = [[*range(classes)]] * clients  # rows of the head to combine
    server = side.Federation(net.state_dict(), side.cfg["model_rate"], labels)
    data = [
        [{"img": x, "label": y} for x, y in release.batches(*one)]
        for one in start.train
    ]
    for _ in range(workload.ROUNDS):
        with (
            mock.patch("torch.randperm", torch.arange),
            mock.patch("torch.nn.utils.clip_grad_norm_"),  # an option of jaxproto
        ):
            made = side.make_local(data, range(len(data)), labels, server)
            clients, parts, ids, entries = made
            each = zip(clients, parts, strict=True)
            parts = [c.train(part, workload.RATE, mock.MagicMock()) for c, part in each]
        yield [np.concatenate([*whole(weights, part)]) for part in parts]
        server.combine(parts, entries, ids)


def network(model_rate: float = 1.0) -> nn.Module:
    """Returns network `mlp` or the part of it that has a share of its units.

    The pooling of features is a fixed layer, which the library divides as any other.
    """
    conv = importlib.import_module("models.conv")
    net = conv.Conv((1,), [1], workload.CLASSES)
    width, dim = (int(np.ceil(model_rate * n)) for n in (256, workload.DIM))
    scale = conv.Scaler(model_rate) if conv.cfg["scale"] else nn.Identity()
    layers = {"flat": nn.Flatten(), "fc1": nn.Linear(np.prod(workload.SHAPE), width)}
    layers |= {"scale1": scale, "relu1": nn.ReLU(), "fc2": nn.Linear(width, width)}
    base = nn.Sequential(OrderedDict(layers, scale2=scale, relu2=nn.ReLU()))
    pool = nn.AdaptiveAvgPool1d(dim)(torch.eye(width))
    blocks = {"base": base, "pool": release.linear(pool.numpy())}
    blocks["pool"].requires_grad_(False)
    blocks["head"] = nn.Linear(dim, workload.CLASSES)
    net.blocks = nn.Sequential(OrderedDict(blocks))
    return net


def whole(weights: dict[str, np.ndarray], part: dict) -> Iterator[np.ndarray]:
    """Yields the arrays [P_i] of a part between zeros, in the order of `ours.flat`."""
    for name in sorted(weights):
        array, own = np.zeros_like(weights[name]), part[f"blocks.{name}"].numpy()
        array[tuple(map(slice, own.shape))] = own
        yield array.ravel()
