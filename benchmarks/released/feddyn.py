"""Released code of FedDyn as the other side, https://github.com/alpemreacar/FedDyn.

Its function for all rounds is called once, with data, a network and batches in the
order of the data. What it returns of the clients' local training is kept.
"""

import contextlib
import importlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import torch

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

CLASSES = ("feddyn",)
LEFT_OUT = (  # modules
    "matplotlib",
    "matplotlib.pyplot",
    "torchvision",
    "torchvision.models",
    "torchvision.transforms",
)


def begin(source: Path):
    """Makes the release's modules importable, without figures and images."""
    release.importable(source, LEFT_OUT)


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    methods = importlib.import_module("utils_methods")
    load, train, trained = torch.utils.data.DataLoader, methods.train_feddyn_mdl, []

    def in_order(data, batch_size, **_):
        return load(data, batch_size)

    def equal_alpha(net, build, alpha, *args):  # the release divides it by n_i N / n
        trained.append(train(net, build, start.options["mu"], *args))
        return trained[-1]

    with (
        TemporaryDirectory() as folder,
        contextlib.chdir(folder),  # where the release makes a folder
        mock.patch("torch.utils.data.DataLoader", in_order),
        mock.patch.object(methods, "train_feddyn_mdl", equal_alpha),
    ):
        Path("Output/digits").mkdir(parents=True)
        methods.train_FedDyn(**arguments(start))
    nets = [release.flat(net) for net in trained]
    for at in range(0, len(nets), len(start.train)):
        yield nets[at : at + len(start.train)]


def arguments(start: Start) -> dict:
    """Returns the arguments of the release for all rounds."""

    def network():
        return release.Network(start.server.params["net"])

    data = [[t.numpy() for t in release.tensors(*d)] for d in start.train]
    x, y = zip(*data, strict=True)
    tested = {"tst_x": x[0], "tst_y": y[0]}
    sizes = {"n_client": len(data), "dataset": "mnist", "name": "digits"}
    return {
        "data_obj": Namespace(clnt_x=x, clnt_y=y, **tested, **sizes),
        "act_prob": 1.0,
        "alpha_coef": start.options["mu"],
        "batch_size": workload.BATCH,
        "com_amount": workload.ROUNDS,
        "epoch": workload.EPOCHS,
        "init_model": network(),
        "learning_rate": workload.RATE,
        "lr_decay_per_round": 1.0,
        "model_func": network,
        "print_per": workload.EPOCHS + 1,
        "save_period": workload.ROUNDS + 1,
        "weight_decay": 0.0,
    }
