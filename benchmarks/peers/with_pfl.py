"""pfl-research: `FederatedAveraging` with the simulated backend, in one process.

    python -m benchmarks.peers.with_pfl FILE

The sampler of users returns the clients of the file, in its order. PyTorch has its
default number of threads. Metrics of users are computed in the first round only, which
is not counted.
"""

import sys
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional as F

from benchmarks.peers import shared, torch_side
from benchmarks.peers.shared import Federation


class Trained(nn.Module):
    """Network with the loss and metrics that pfl needs."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def loss(self, x, y):
        """Returns the mean cross-entropy."""
        return F.cross_entropy(self.net(x), y)

    @torch.no_grad()
    def metrics(self, x, y):
        """Returns the loss, weighted by examples."""
        return {"loss": Weighted(F.cross_entropy(self.net(x), y).item(), len(y))}


class Stopwatch(TrainingProcessCallback):
    """Callback that prints the seconds of every round."""

    def on_train_begin(self, *, model):
        """Starts the first round."""
        self.last = time.perf_counter()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Prints the seconds of the round, and starts the next one."""
        now = time.perf_counter()
        shared.say(round=central_iteration + 1, seconds=now - self.last)
        self.last = time.perf_counter()
        return False, Metrics()


def users(fed: Federation) -> FederatedDataset:
    """Returns the clients in the order in which they take part."""
    rng, order = np.random.default_rng(0), iter(fed.cohorts.ravel().tolist())

    def make(client):
        tensors = torch_side.examples(fed, shared.epoch(fed, client, rng))
        return PyTorchTensorDataset(tensors, user_id=str(client))

    return FederatedDataset(make, lambda: next(order))


def main(path: str):
    """Runs all rounds."""
    fed = torch_side.federation(path)
    net, data = torch_side.network(fed), users(fed)
    trained = Trained(net)
    size, rate = fed.settings["batch_size"], fed.settings["learning_rate"]
    params = NNAlgorithmParams(
        central_num_iterations=len(fed.cohorts),
        evaluation_frequency=len(fed.cohorts),
        train_cohort_size=fed.cohorts.shape[1],
        val_cohort_size=0,
    )
    FederatedAveraging().run(
        params,
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(
            trained,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(trained.parameters(), lr=1.0),
        ),
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=rate, local_batch_size=size
        ),
        NNEvalHyperParams(local_batch_size=size),
        [Stopwatch()],
    )
    shared.finish(torch_side.accuracy(net, fed), ("pfl", "torch", "numpy"))


if __name__ == "__main__":
    main(sys.argv[1])
