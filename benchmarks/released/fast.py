"""Released code of FAST as the other side, https://github.com/RogerRogerUSC/FAST.

The rounds of its script run with its clients and server. They are given data, initial
networks and who takes part.
"""

import ast
import importlib
import itertools
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks.released import ours, release, workload
from benchmarks.released.ours import Start

begin = release.importable
CLASSES = ("fast",)


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    with mock.patch("sys.argv", command_line(start)):
        utils = importlib.import_module("shared.agent_utils")
    same = {"criterion": nn.CrossEntropyLoss(), "device": "cpu"}
    every = zip(start.clients, start.train, strict=True)
    clients = [client(utils, *own, same) for own in every]
    server = utils.Server(model=release.Network(start.server.params["net"]), **same)
    made, progress = [], mock.MagicMock()  # a bar, updated at the end of a round
    progress.return_value.__enter__.return_value.update = lambda _: made.append(
        [release.flat(one.model) for one in clients]
    )
    names = {"client_sampling": participants, "tqdm": progress}
    names |= {"clients": clients, "server": server}
    with mock.patch("random.random", lambda: workload.DRAWN):
        exec(script(), vars(utils) | names)
    yield from made


def command_line(start: Start) -> list[str]:
    """Returns the command of the release with the options of jaxproto."""
    steps = workload.EPOCHS * max(len(y) for _, y in start.train) // workload.BATCH
    given = {
        "adaptive": 1,
        "eval-iterations": workload.ROUNDS + 1,
        "gamma": start.options["gamma"],
        "local-update": steps + 1,  # the pass over the data ends, with its accuracy
        "round": workload.ROUNDS,
        "sampling-type": "uniform_beta",
    }
    return ["fast", *(f"--{name}={value}" for name, value in given.items())]


def client(utils, params, data, same):
    """Builds a client, whose pass over the data is all local epochs."""
    net = release.Network(params["net"])
    sgd = torch.optim.SGD(net.parameters(), workload.RATE)
    batches = release.batches(*data) * workload.EPOCHS
    return utils.Agent(
        model=net, optimizer=sgd, scheduler=None, train_loader=batches, **same
    )


def participants(law: str, clients: list, round: int) -> list:
    """Returns the clients of a round that `ours` chooses."""
    on = ours.participants(len(clients), round, law == "uniform")
    return [*itertools.compress(clients, on)]


def script():
    """Returns the compiled rounds of the released script, with their first values."""
    tree = ast.parse(Path(find_spec("fast_main").origin).read_text())
    at = [type(node) for node in tree.body].index(ast.With)
    tree.body = tree.body[at - 5 : at + 1]
    return compile(tree, "fast_main.py", "exec")
