"""Arrays of jaxproto's clients and server, under PyTorch's names and shapes."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.parity import record
from benchmarks.parity.record import Record
from jaxproto.core.types import Array, Protos, Shard, Tree
from jaxproto.experiment.build import Experiment
from jaxproto.models import to_torch
from jaxproto.training.programs import State


class Look(NamedTuple):
    """Order, batches and first local steps of a client in its next round."""

    order: Array  # [E, M]
    rows: Array  # [S, B] of the pool, -1 where no example counts
    steps: Array
    loss: Array  # of the first step
    params: Tree  # [S, ...] after each of the first steps
    norm: Tree


def by_client(exp: Experiment, parts) -> list[Tree]:
    """Splits the trees that cohorts return by client id, on the host."""
    by_id = {}
    for cohort, part in zip(exp.cohorts, jax.device_get([*parts]), strict=True):
        for k, i in enumerate(cohort.ids):
            by_id[i] = jax.tree.map(lambda a, k=k: a[k], part)
    return [by_id[i] for i in sorted(by_id)]


def rows(exp: Experiment, shards: tuple[Shard, ...]) -> list[np.ndarray]:
    """Returns the rows of the pool that each client has."""
    return [np.array(s.index[: s.size]) for s in by_client(exp, shards)]


def weights(exp: Experiment, state: State) -> list[dict[str, np.ndarray]]:
    """Returns parameters and statistics of each client, under PyTorch's names."""
    trees = by_client(exp, [(c.params, c.norm) for c in state.clients])
    return [of_network(params, norm) for params, norm in trees]


def of_network(params: Tree, norm: Tree) -> dict[str, np.ndarray]:
    """Returns arrays of a client's network, and of its adapter if it has one."""
    adapter = layers(params.get("adapter", {}))
    own = {f"adapter.{k}": v for k, v in adapter.items()}
    return to_torch(params["net"], norm["net"]) | own


def layers(tree: Tree) -> dict[str, np.ndarray]:
    """Converts linear layers of a server to PyTorch's names and layout."""
    arrays = {}
    for name, layer in tree.items():
        if isinstance(layer, dict):
            arrays[f"{name}.weight"] = np.array(layer["kernel"]).T
            arrays[f"{name}.bias"] = np.array(layer["bias"])
        else:
            arrays[f"{name}.weight"] = np.array(layer)
    return arrays


def of_server(server: Tree) -> dict[str, np.ndarray]:
    """Returns the server's weights: FedTGP's generator or RefProtoFL's adapter."""
    return layers(getattr(server, "network", getattr(server, "adapter", {})))


def first_steps(seen: Look) -> dict[str, np.ndarray]:
    """Returns the weights of a client after each of its first steps [S, ...]."""
    by_step = []
    for i in range(min(int(seen.steps), record.STEPS)):
        trees = jax.tree.map(lambda a, i=i: a[i], (seen.params, seen.norm))
        by_step.append(of_network(*trees))
    return record.stacked(by_step)


def begun(seen: list[Look]) -> Record:
    """Records batches, the first loss, and weights after the first steps."""
    return {
        record.BATCHES: {
            record.client(i): s.rows[: s.steps] for i, s in enumerate(seen)
        },
        record.FIRST: {record.client(i): s.loss for i, s in enumerate(seen)},
        record.STEP: record.of_clients([first_steps(s) for s in seen]),
    }


def after(exp: Experiment, state: State, learnt: Mapping) -> Record:
    """Records the weights after training, and the loss that a run logs."""
    return {
        record.WEIGHTS: record.of_clients(weights(exp, state)),
        record.LOSS: {"all clients": np.asarray(learnt["loss"])},
    }


def table(protos: Protos) -> np.ndarray:
    """Returns prototypes [C, D], with NaN where there is none."""
    present = np.asarray(protos.count)[:, None] > 0
    return np.where(present, np.asarray(protos.mean), np.nan)
