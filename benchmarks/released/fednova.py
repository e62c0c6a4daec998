"""Released code of FedNova as the other side, https://github.com/JYWa/FedNova.

Its optimizer comes from a checkout: one per client takes the local steps, and all
average at the same time, each in a thread.
"""

import importlib
import threading
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.released import release, workload
from benchmarks.released.ours import Start

begin = release.importable
CLASSES = ("fednova",)


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after the local training of every round."""
    kind = importlib.import_module("distoptim").FedNova
    nets = [release.Network(start.server.params["net"]) for _ in start.train]
    sizes = [len(y) for _, y in start.train]
    clients = [
        kind(
            net.parameters(),
            ratio=size / sum(sizes),
            gmf=start.options["server_momentum"],
            mu=start.options["mu"],
            lr=workload.RATE,
            momentum=workload.ROWS[row].options["optimizer.momentum"],
        )
        for net, size in zip(nets, sizes, strict=True)
    ]
    for _ in range(workload.ROUNDS):
        for net, client, data in zip(nets, clients, start.train, strict=True):
            train(net, client, release.batches(*data))
        yield [release.flat(net) for net in nets]
        average(clients)


def train(net: release.Network, client: torch.optim.Optimizer, batches: list):
    """Takes the local steps of a client."""
    for x, y in batches * workload.EPOCHS:
        client.zero_grad()
        cross_entropy(net(x), y).backward()
        client.step()


def average(clients: list):
    """Takes the server's step, which every client takes for itself."""
    threads = [
        threading.Thread(target=client.average, name=f"{i}")
        for i, client in enumerate(clients)
    ]
    with (
        mock.patch("torch.distributed.all_reduce", summation(len(clients))),
        mock.patch("torch.Tensor.cuda", lambda tensor: tensor),
    ):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def summation(count: int) -> Callable:
    """Returns a replacement of `all_reduce` for the threads of `count` clients."""
    every, barrier = {}, threading.Barrier(count, timeout=60)

    def all_reduce(tensor, op=None):
        every[threading.current_thread().name] = tensor.clone()
        barrier.wait()
        tensor.copy_(sum(every[name] for name in sorted(every)))
        barrier.wait()

    return all_reduce
