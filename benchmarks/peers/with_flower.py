"""Flower: `FedAvg` in its simulation engine, an actor for every core.

    python -m benchmarks.peers.with_flower FILE

Flower has as many nodes as there are clients and draws those of a round itself, as
many and uniformly; which client's images each of them trains on, the file says. An
actor reads the file once and has one thread. A round is all from drawing the nodes to
the new average.
"""

import os
import sys
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import numpy as np
import torch
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers import shared, torch_side
from benchmarks.peers.shared import Federation

BACKEND = {  # an actor has one core; Ray starts anew, beside clusters that are there
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {"address": "local"},
}


class Listed(FedAvg):
    """FedAvg that says which client's images a node gets, and the seconds of rounds."""

    def __init__(self, fed: Federation, path: str):
        (clients, _), (_, most) = fed.clients.shape, fed.cohorts.shape
        super().__init__(
            fraction_train=most / clients,
            fraction_evaluate=0.0,
            min_train_nodes=most,
            min_available_nodes=clients,
        )
        self.fed, self.path, self.began = fed, path, 0.0

    def configure_train(self, server_round, arrays, config, grid):
        """As FedAvg, with a client for every node."""
        self.began = time.perf_counter()
        drawn = super().configure_train(server_round, arrays, config, grid)
        cohort = self.fed.cohorts[server_round - 1].tolist()
        return [
            Message(
                content=RecordDict(
                    {"arrays": arrays, "config": self.task(server_round, client)}
                ),
                message_type=MessageType.TRAIN,
                dst_node_id=message.metadata.dst_node_id,
            )
            for message, client in zip(drawn, cohort, strict=True)
        ]

    def task(self, server_round, client) -> ConfigRecord:
        """What a node is told."""
        return ConfigRecord(
            {"path": self.path, "round": server_round, "client": client}
        )

    def aggregate_train(self, server_round, replies):
        """As FedAvg; the round ends here.

        Raises:
          RuntimeError: a node did not answer, or not with a network.
        """
        replies = list(replies)
        average = super().aggregate_train(server_round, replies)
        seconds = time.perf_counter() - self.began
        failed = [reply.error.reason for reply in replies if reply.has_error()]
        if failed or len(replies) != self.fed.cohorts.shape[1]:
            raise RuntimeError(f"{len(replies)} replies; errors: {failed[:1]}")
        shared.say(round=server_round, seconds=seconds)
        return average


def train(message, context):
    """What a node does."""
    del context
    torch.set_num_threads(1)
    task = message.content["config"]
    fed, client = torch_side.federation(task["path"]), task["client"]
    net = torch_side.network(fed)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    rng = np.random.default_rng((task["round"], client))
    torch_side.train(net, fed, client, rng)
    size = MetricRecord({"num-examples": fed.clients.shape[1]})
    arrays = ArrayRecord(net.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": size}), reply_to=message)


def serve(grid, path: str):
    """What the server does."""
    fed = torch_side.federation(path)
    net = torch_side.network(fed)
    start, rounds = ArrayRecord(net.state_dict()), len(fed.cohorts)
    result = Listed(fed, path).start(grid, start, rounds)
    net.load_state_dict(result.arrays.to_torch_state_dict())
    accuracy = torch_side.accuracy(net, fed)
    shared.finish(accuracy, ("flwr", "ray", "torch", "numpy"))  # actors still live


def main(path: str):
    """All rounds."""
    server, client = ServerApp(), ClientApp()
    server.main()(lambda grid, context: serve(grid, path))
    client.train()(train)
    nodes = len(torch_side.federation(path).clients)
    run_simulation(server, client, num_supernodes=nodes, backend_config=BACKEND)


if __name__ == "__main__":
    main(sys.argv[1])
