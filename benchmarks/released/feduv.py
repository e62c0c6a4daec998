"""Released code of FedUV's authors as the other side.

The training of a client and the body of the loop over rounds, with the server's step,
come from a checkout of https://github.com/sonhamin/FedUV.
"""

import ast
import importlib
import logging
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from unittest import mock

import numpy as np
import torch

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

begin = release.importable
CLASSES = ("feduv",)


class Network(release.Network):
    """Network that returns what FedUV's networks do."""

    def forward(self, x):
        """Returns features [B, D] as the second of five, logits [B, C] as the third."""
        feat = self.base(x)
        return None, feat, self.head(feat), None, None


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after every round."""
    names, body, sgd = federation(start), one_round(), torch.optim.SGD
    for names["round"] in range(workload.ROUNDS):
        # without the momentum of 0.9
        with mock.patch("torch.optim.SGD", lambda params, lr, **_: sgd(params, lr)):
            exec(body, names)
        yield [release.flat(net) for net in names["nets"].values()]


def one_round() -> CodeType:
    """Compiles the body of the loop over rounds, which is inside `main`."""
    tree = ast.parse(Path(sys.path[0], "train_fl.py").read_text())
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    body = next(loop.body for loop in loops if ast.unparse(loop.target) == "round")
    return compile(ast.Module(body, []), "train_fl.py", "exec")


def federation(start: Start) -> dict:
    """Returns the names that the loop reads, as they are before round 1."""
    sizes = [len(y) for _, y in start.train]
    batches = [release.batches(*data) for data in start.train]
    args = Namespace(
        alg="feduv",
        n_parties=len(sizes),
        optimizer="sgd",
        reg=0.0,
        std_coeff=start.options["variance"],
        unif_coeff=start.options["uniformity"],
    )
    nets = [Network(params["net"]) for params in start.clients]
    unread = ("dataidxs", "test_dl", "train_dl_global")
    return {
        **dict.fromkeys(unread, ()),
        "args": args,
        "compute_accuracy": lambda *_, **__: (0.0, 0.0),
        "device": "cpu",
        "global_model": Network(start.server["net"]),
        "logger": logging.getLogger("feduv"),
        "n_classes": workload.CLASSES,
        "n_epoch": workload.EPOCHS,
        "net_dataidx_map": [range(size) for size in sizes],
        "nets": dict(enumerate(nets)),
        "party_list_rounds": [range(len(sizes))] * workload.ROUNDS,
        "scheduler": mock.Mock(get_last_lr=lambda: [workload.RATE]),  # no cosine
        "test_dl_local_list": batches,
        "time": time,
        "train_dl_local_list": batches,
        "train_net_feduv": importlib.import_module("algs.feduv").train_net_feduv,
    }
