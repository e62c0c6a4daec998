"""Flower: `FedAvg` in its simulation engine, an actor for every core.

    python -m benchmarks.peers.with_flower FILE

Flower has a node for each client and samples as many nodes per round as the file has
participants. Each sampled node trains on the images of a participant of the file. An
actor reads the file once and has one thread. A round lasts from sampling to the new
average.
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

BACKEND = {  # an actor has one core; Ray starts a cluster of its own
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {"address": "local"},
}


class Listed(FedAvg):
    """FedAvg that assigns a client of the file to each node, and times the rounds."""

    def __init__(self, fed: Federation, path: str):
        (clients, _), (_, per_round) = fed.clients.shape, fed.cohorts.shape
        super().__init__(
            fraction_train=per_round / clients,
            fraction_evaluate=0.0,
            min_train_nodes=per_round,
            min_available_nodes=clients,
        )
        self.fed, self.path, self.began = fed, path, 0.0

    def configure_train(self, server_round, arrays, config, grid):
        """Samples nodes as FedAvg does, and assigns a client to each."""
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
        """Returns the file, the round and the client of a node."""
        return ConfigRecord(
            {"path": self.path, "round": server_round, "client": client}
        )

    def aggregate_train(self, server_round, replies):
        """Aggregates as FedAvg does, and prints the seconds of the round.

        Raises:
          RuntimeError: a node sent no reply, or an error.
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
    """Trains the network of a message on the images of its client."""
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
    """Runs all rounds on the server, and prints the last line."""
    fed = torch_side.federation(path)
    net = torch_side.network(fed)
    start, rounds = ArrayRecord(net.state_dict()), len(fed.cohorts)
    result = Listed(fed, path).start(grid, start, rounds)
    net.load_state_dict(result.arrays.to_torch_state_dict())
    accuracy = torch_side.accuracy(net, fed)
    shared.finish(accuracy, ("flwr", "ray", "torch", "numpy"))  # before the actors end


def main(path: str):
    """Runs all rounds in the simulation engine."""
    server, client = ServerApp(), ClientApp()
    server.main()(lambda grid, context: serve(grid, path))
    client.train()(train)
    nodes = len(torch_side.federation(path).clients)
    run_simulation(server, client, num_supernodes=nodes, backend_config=BACKEND)


if __name__ == "__main__":
    main(sys.argv[1])
