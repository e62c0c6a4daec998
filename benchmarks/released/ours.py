"""jaxproto's side of the comparison with released code: a federation of three clients.

Batches are in the order of the data, so that both sides take the same steps. Where a
release follows a rule that a method documents as its option, FIELDS choose it.
Rules of a release that no option chooses are in `as_released`.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

from benchmarks import measure, synthetic
from benchmarks.parity.arrays import by_client, rows
from jaxproto import config as config_
from jaxproto import kernels
from jaxproto.experiment import build
from jaxproto.methods import fedgen, fedkd, fedl2g
from jaxproto.models import to_torch
from jaxproto.training.programs import State
from jaxproto.types import Tree

SIZES, EQUAL_SIZES = (40, 60, 80), (60, 60, 60)  # examples, whole batches
SHAPE, CLASSES, DIM, BATCH, RATE, EPOCHS, ROUNDS = (8, 8, 1), 10, 64, 10, 0.05, 2, 3
COMMON = {
    "data.clients": len(SIZES),
    "data.partition": "feature",
    "data.pool": False,
    "local.batch_size": BATCH,
    "local.epochs": EPOCHS,
    "local.order": "fixed",
    "model.feat_dim": DIM,
    "model.group": "mlp",
    "optimizer.learning_rate": RATE,
    "rounds": ROUNDS,
}
# FedKD's factors are smaller than its matrices, FedGH has one batch of all uploads
KD = {"aux": "mlp", "energy_start": 0.5, "energy_end": 0.5, "target": "attached"}
GEN = {"hidden": 32, "noise": 8, "server_batch": BATCH, "server_epochs": 5}
GH = {"server_batch": 1000, "server_epochs": 3}
FIELDS = {  # row -> options that are not the default
    "ditto": {},
    "fedavg": {},
    "feddistill": {"distance": "raw_ce", "lam": 0.1},
    "fedgen": GEN,
    "fedgh": GH,
    "fedhp": {"anchoring": 10.0},
    "fedkd": KD,
    "fedl2g": {},
    "fedl2g_logits": {"guide": "logits", "server_rate": 0.1},
    "fedmrl": {"aux": "mlp", "aux_dim": 16},
    "fedpac": {},
    "fedpcl": {"temperature": 0.25},  # gradients below the norm where PFLlib clips
    "fedper": {},
    "fedprox": {},
    "fedrep": {},
    "fml": {"aux": "mlp", "target": "attached"},
    "lg_fedavg": {},
    "moon": {},
    "scaffold": {},
}
MISTAKES = {  # row -> a wrong option, which the comparison has to find
    "ditto": {"mu": 1.01},
    "feddistill": {"lam": 0.101},
    "fedgen": {"weight": 1.01},
    "fedgh": {"server_rate": 0.0101},
    "fedhp": {"anchoring": 10.1},
    "fedkd": {"target": "detached"},
    "fedl2g": {"server_rate": 200.0},
    "fedl2g_logits": {"server_rate": 1.0},
    "fedmrl": {"aux_dim": 15},
    "fedpac": {"lam": 1.01},
    "fedpcl": {"temperature": 0.252},
    "fedprox": {"mu": 0.0},
    "fedrep": {"head_share": 0.4},
    "fml": {"target": "detached"},
    "moon": {"contrastive": 1.01},
    "scaffold": {"server_rate": 0.99},
}


class Start(NamedTuple):
    """Initial state that both sides share."""

    train: list[tuple[np.ndarray, np.ndarray]]  # of each client: x [M, ...], y [M]
    clients: list[Tree]  # parameters
    server: Tree
    options: Mapping  # of the method


class Trained(NamedTuple):
    """Start of a federation, and the networks of its clients after every round."""

    start: Start
    rounds: list[list[np.ndarray]]  # round -> client -> parameters [P]


def train(row: str, changed: Mapping | None = None) -> Trained:
    """Trains all rounds of a row, with other options if some are given."""
    with TemporaryDirectory() as folder, same_draws(row):
        path = Path(folder) / "digits.npz"
        # HtFLlib's FedMRL has a plain mean over clients
        save_data(path, EQUAL_SIZES if row == "fedmrl" else SIZES)
        config = configuration(row, f"npz:{path}", changed or {})
        exp = build.experiment(config, jax.default_backend())
        run = synthetic.Run(exp, config.seed)

        def of_clients():
            return by_client(exp, [c.params for c in run.state.clients])

        x, y = np.asarray(exp.dataset.x), np.asarray(exp.dataset.y)
        data = [(x[at], y[at]) for at in rows(exp, exp.train)]
        server = jax.device_get(run.state.server)
        start = Start(data, of_clients(), server, config.method.to_dict())
        made = []
        for _ in range(ROUNDS):
            run.state = as_released(row, run.state, start)
            run.next_round()
            made.append([flat(params) for params in of_clients()])
    return Trained(start, made)


def save_data(path: Path, sizes: tuple[int, ...]):
    """Writes digits of clients with six of the ten classes each."""
    x, y = load_digits(return_X_y=True)
    rng, picked = np.random.default_rng(0), []
    for i, size in enumerate(sizes):
        mine = np.flatnonzero((y + 3 * i) % CLASSES < 6)
        picked.append(rng.choice(mine, size, replace=False))
    at, domain = np.concatenate(picked), np.repeat(np.arange(len(sizes)), sizes)
    pixels = (15 * x[at]).astype(np.uint8).reshape(-1, *SHAPE)
    every = {"x": pixels, "y": y[at].astype(np.int32), "domain": domain}
    arrays = {f"{k}_{part}": v for k, v in every.items() for part in ("train", "test")}
    np.savez(path, **arrays)


def configuration(row: str, data: str, changed: Mapping):
    """Returns the configuration of a row."""
    method = row.removesuffix("_logits")
    config = config_.load(f"{measure.ROOT}/configs/{method}.py:digits")
    options = {f"method.{k}": v for k, v in {**FIELDS[row], **changed}.items()}
    config.update_from_flattened_dict({**COMMON, "data.name": data, **options})
    config_.check(config)
    return config


def flat(params: Tree) -> np.ndarray:
    """Returns the parameters of a client's own network [P], by PyTorch's names."""
    arrays = to_torch(params["net"], {})
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


def drawn_labels() -> np.ndarray:
    """Returns the labels [B] of features that FedGen generates."""
    return 7 * np.arange(BATCH) % CLASSES


def drawn_noise() -> np.ndarray:
    """Returns the noise [B, N] of FedGen's generator."""
    size = BATCH, GEN["noise"]
    return (0.618 * np.arange(1, np.prod(size) + 1) % 1).reshape(size)


def same_draws(row: str) -> ExitStack:
    """Replaces what FedGen draws, and FedPAC's mean by PFLlib's plain one.

    The code of FedPAC's authors weighs prototypes by examples, as jaxproto does.
    """
    stack, uniform = ExitStack(), jax.random.uniform

    def draw(key, shape=(), *args, **kwargs):
        fixed = shape == drawn_noise().shape
        return drawn_noise() if fixed else uniform(key, shape, *args, **kwargs)

    def replace(place, name, value):
        stack.enter_context(mock.patch.object(place, name, value))

    if row == "fedgen":
        replace(fedgen, "draw_labels", lambda *_: jnp.array(drawn_labels()))
        replace(jax.random, "uniform", draw)
    if row == "fedpac":
        replace(kernels, "mean_over_examples", kernels.mean_over_clients)
    return stack


def as_released(row: str, state: State, start: Start) -> State:
    """Returns the state before a round as HtFLlib has it.

    FedGen knows all labels from the start, and Adam starts anew in every round. FedMRL
    does not save the projector after training.
    """
    server, (cohort,) = state.server, state.clients
    if row == "fedgen":
        count_C = np.bincount(np.concatenate([y for _, y in start.train]))
        sent = server.sent._replace(counts=jnp.array(count_C, jnp.int32))
        adam = optax.adam(start.options["server_rate"])
        server = server._replace(sent=sent, opt=adam.init(sent.generator))
    if row == "fedmrl":
        layers = [params["projector"] for params in start.clients]
        first = jax.tree.map(lambda *a: jnp.stack(a), *layers)
        cohort = cohort.replace(params={**cohort.params, "projector": first})
    return state._replace(server=server, clients=(cohort,))


def first_mentee(start: Start) -> Tree:
    """Returns the network that FedKD's clients begin with, compressed and restored."""
    sent = fedkd.compress(start.server.aux, start.options["energy_start"])
    return jax.device_get(fedkd.decompress(sent, start.server.aux))


def fedl2g_rows(size: int, r: int, options: Mapping) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions of FedL2G's quiz, and of its study examples in round `r`."""
    held = np.array(fedl2g.quiz_rows(jnp.int32(size), options["quiz"]))
    held = held[held < size]
    study = (r * options["study"] + np.arange(options["study"])) % size
    return held, study[~np.isin(study, held)]
