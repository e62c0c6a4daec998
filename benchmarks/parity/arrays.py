"""Arrays of jaxproto's clients and server, by the names and shapes of PyTorch's."""

from typing import NamedTuple

import jax
import numpy as np

from benchmarks.parity import record
from benchmarks.parity.record import Record
from jaxproto.experiment.build import Experiment
from jaxproto.models import to_torch
from jaxproto.training import rounds
from jaxproto.training.programs import State
from jaxproto.types import Array, Protos, Shard, Tree


class Look(NamedTuple):
    """What is known of a client before it has trained."""

    order: Array  # [E, M]
    rows: Array  # [S, B] of the pool, -1 where no example counts
    steps: Array
    loss: Array  # of the first step
    params: Tree  # [S, ...] after each of the first steps
    norm: Tree


def by_client(exp: Experiment, parts) -> list[Tree]:
    """Rows of the trees that cohorts return, by client id, on the host."""
    found = {}
    for cohort, part in zip(exp.cohorts, jax.device_get([*parts]), strict=True):
        for k, i in enumerate(cohort.ids):
            found[i] = jax.tree.map(lambda a, k=k: a[k], part)
    return [found[i] for i in sorted(found)]


def rows(exp: Experiment, shards: tuple[Shard, ...]) -> list[np.ndarray]:
    """Rows of the pool that each client has."""
    return [np.array(s.index[: s.size]) for s in by_client(exp, shards)]


def weights(exp: Experiment, state: State) -> list[dict[str, np.ndarray]]:
    """Parameters and statistics of each client by PyTorch's names."""
    every = by_client(exp, [(c.params, c.norm) for c in state.clients])
    return [of_network(*both) for both in every]


def of_network(params: Tree, norm: Tree) -> dict[str, np.ndarray]:
    """Those of a client's network, and of its adapter if it has one."""
    adapter = layers(params.get("adapter", {}))
    own = {f"adapter.{k}": v for k, v in adapter.items()}
    return to_torch(params["net"], norm["net"]) | own


def layers(tree: Tree) -> dict[str, np.ndarray]:
    """Linear layers of a server as PyTorch has them."""
    found = {}
    for name, layer in tree.items():
        if isinstance(layer, dict):
            found[f"{name}.weight"] = np.array(layer["kernel"]).T
            found[f"{name}.bias"] = np.array(layer["bias"])
        else:
            found[f"{name}.weight"] = np.array(layer)
    return found


def of_server(server: Tree) -> dict[str, np.ndarray]:
    """Weights that a server has: FedTGP's generator or RefProtoFL's adapter."""
    return layers(getattr(server, "network", getattr(server, "adapter", {})))


def first_steps(seen: Look) -> dict[str, np.ndarray]:
    """Weights of a client after each of its first steps [S, ...]."""
    every = []
    for i in range(min(int(seen.steps), record.STEPS)):
        both = jax.tree.map(lambda a, i=i: a[i], (seen.params, seen.norm))
        every.append(of_network(*both))
    return record.stacked(every)


def begun(seen: list[Look]) -> Record:
    """Batches, and what the first steps did."""
    return {
        record.BATCHES: {
            record.client(i): s.rows[: s.steps] for i, s in enumerate(seen)
        },
        record.FIRST: {record.client(i): s.loss for i, s in enumerate(seen)},
        record.STEP: record.of_clients([first_steps(s) for s in seen]),
    }


def after(exp: Experiment, state: State, learnt: rounds.RoundSummary) -> Record:
    """Weights, and the loss that a run logs."""
    return {
        record.WEIGHTS: record.of_clients(weights(exp, state)),
        record.LOSS: {"all clients": np.asarray(learnt.loss)},
    }


def table(protos: Protos) -> np.ndarray:
    """Prototypes [C, D], NaN where there is none."""
    return record.where_present(np.asarray(protos.mean), np.asarray(protos.count))
