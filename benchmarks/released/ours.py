"""jaxproto's side of the comparison with released code: a small federation.

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
from jaxproto import kernels, participation
from jaxproto.experiment import build
from jaxproto.experiment.method_builder import public_inputs
from jaxproto.methods import fedgen, fedkd, fedl2g, fedtgp, vhl
from jaxproto.models import to_torch
from jaxproto.training.programs import State
from jaxproto.types import Tree

SIZES = (40, 60, 80)  # examples, whole batches
EQUAL_SIZES = (60, 60, 60)
OTHER_SIZES = {
    "feddf": EQUAL_SIZES,  # a plain mean over clients in the release
    "fedmd": EQUAL_SIZES,  # as many steps for every client in the release
    "fedmrl": EQUAL_SIZES,  # a plain mean over clients in HtFLlib
    "fpl": (20, 30) * 4,  # clusters need many clients
}
SHAPE, CLASSES, DIM, BATCH, RATE, EPOCHS, ROUNDS = (8, 8, 1), 10, 64, 10, 0.05, 2, 3
PLANNED = ROUNDS + 1  # FedProc has no contrast in the last round
COMMON = {
    "data.partition": "feature",
    "data.pool": False,
    "local.batch_size": BATCH,
    "local.epochs": EPOCHS,
    "local.order": "fixed",
    "model.feat_dim": DIM,
    "model.group": "mlp",
    "optimizer.learning_rate": RATE,
    "rounds": PLANNED,
}
DRAWN = 0.075  # below FAST's probability of a snapshot in round 3 alone, on both sides
# at a low rate, because Adam amplifies the rounding of small gradients
DF = {"server_batch": BATCH, "server_epochs": 10, "server_rate": 3e-5}
# FedKD's factors are smaller than its matrices, FedGH has one batch of all uploads
KD = {"aux": "mlp", "energy_start": 0.5, "energy_end": 0.5, "target": "attached"}
GEN = {"hidden": 32, "noise": 8, "server_batch": BATCH, "server_epochs": 5}
GH = {"server_batch": 1000, "server_epochs": 3}
# FedTGP's margin is the gap in round 1, tau in round 2
TGP = {"server_batch": BATCH, "server_rate": RATE, "tau": 0.4}
TINY = {"collect": "train_pass", "mu": 0.05}
FIELDS = {  # row -> options that are not the default; with a dot, other fields
    "ditto": {},
    "fast": {"fraction": 0.5, "pace": "adaptive", "q": 0.0},
    "fedavg": {},
    "feddf": DF,
    "feddistill": {"distance": "raw_ce", "lam": 0.1},
    "feddyn": {},
    "fedgen": GEN,
    "fedgh": GH,
    "fedhp": {"anchoring": 10.0},
    "fedkd": KD,
    "fedl2g": {},
    "fedl2g_logits": {"guide": "logits", "server_rate": 0.1},
    "fedmd": {},
    "fedmrl": {"aux": "mlp", "aux_dim": 16},
    "fednh": {"scale": 20.0},
    "fednova": {"server_momentum": 0.5, "optimizer.momentum": 0.5},
    "fedpac": {},
    "fedpcl": {"temperature": 0.25},  # gradients below the norm where PFLlib clips
    "fedper": {},
    "fedproc": {},
    "fedproto": {"collect": "train_pass"},
    "fedprox": {},
    "fedrep": {},
    "fedtgp": {"collect": "before_training", **TGP},
    "feduv": {},
    "fml": {"aux": "mlp", "target": "attached"},
    "fpl": {},
    "heterofl": {},
    "lg_fedavg": {},
    "local": {},
    "moon": {},
    "protonorm": {"collect": "before_training"},
    "scaffold": {},
    "tinyproto": {**TINY, "masks": "block", "s": 20},
    "tinyproto_aps": {**TINY, "masks": "none"},
    "vhl": {},
}
MISTAKES = {  # row -> a wrong option, which the comparison has to find
    "ditto": {"mu": 1.01},
    "fast": {"gamma": 0.5},
    "feddf": {"server_rate": 3.03e-5},
    "feddistill": {"lam": 0.101},
    "feddyn": {"mu": 0.0101},
    "fedgen": {"weight": 1.01},
    "fedgh": {"server_rate": 0.0101},
    "fedhp": {"anchoring": 10.1},
    "fedkd": {"target": "detached"},
    "fedl2g": {"server_rate": 200.0},
    "fedl2g_logits": {"server_rate": 1.0},
    "fedmd": {"digest_share": 0.4},
    "fedmrl": {"aux_dim": 15},
    "fednh": {"rho": 0.91},
    "fednova": {"server_momentum": 0.505},
    "fedpac": {"lam": 1.01},
    "fedproc": {"temperature": 1.01},
    "fedpcl": {"temperature": 0.252},
    "fedproto": {"collect": "after_training"},
    "fedprox": {"mu": 0.0},
    "fedrep": {"head_share": 0.4},
    "fedtgp": {"tau": 0.404},
    "feduv": {"uniformity": 0.51},
    "fml": {"target": "detached"},
    "fpl": {"temperature": 0.0202},
    "heterofl": {"rolling": True},
    "moon": {"contrastive": 1.01},
    "protonorm": {"upscale": 50.5},
    "scaffold": {"server_rate": 0.99},
    "tinyproto": {"mask_seed": 1},
    "tinyproto_aps": {"mu": 0.0505},
    "vhl": {"contrast": 0.101},
}


class Start(NamedTuple):
    """Initial state that both sides share."""

    train: list[tuple[np.ndarray, np.ndarray]]  # of each client: x [M, ...], y [M]
    clients: list[Tree]  # parameters
    server: Tree
    options: Mapping  # of the method
    public: np.ndarray | None  # inputs of the public examples [P, ...]


class Trained(NamedTuple):
    """Start of a federation, and the networks of its clients after every round."""

    start: Start
    rounds: list[list[np.ndarray]]  # round -> client -> parameters [P]


def train(row: str, changed: Mapping | None = None) -> Trained:
    """Trains all rounds of a row, with other options if some are given."""
    with TemporaryDirectory() as folder, same_draws(row):
        path = Path(folder) / "digits.npz"
        save_data(path, OTHER_SIZES.get(row, SIZES))
        config = configuration(row, f"npz:{path}", changed or {})
        exp = build.experiment(config, jax.default_backend())
        run = synthetic.Run(exp, config.seed)

        def of_clients():
            return by_client(exp, [c.params for c in run.state.clients])

        x, y = np.asarray(exp.dataset.x), np.asarray(exp.dataset.y)
        data = [(x[at], y[at]) for at in rows(exp, exp.train)]
        server = jax.device_get(run.state.server)
        options, public = config.method.to_dict(), public_inputs(exp.dataset)
        start = Start(data, of_clients(), server, options, public)
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
    method = row.removesuffix("_aps").removesuffix("_logits")
    config = config_.load(f"{measure.ROOT}/configs/{method}.py:digits")
    given = {**FIELDS[row], **changed}
    options = {k if "." in k else f"method.{k}": v for k, v in given.items()}
    clients = {"data.clients": len(OTHER_SIZES.get(row, SIZES)), "data.name": data}
    config.update_from_flattened_dict({**COMMON, **clients, **options})
    if config.data.public_share:  # public ones beside those of the clients
        config.data.update(public_share=0.0, public_source=data)
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


def uploads_by_class(here_N: jax.Array, epochs: int, key: jax.Array) -> jax.Array:
    """Returns orders [E, N] of uploads by class and then client, absent ones last."""
    row_N = jnp.arange(len(here_N)).reshape(-1, CLASSES).T.ravel()
    order_N = row_N[jnp.argsort(~here_N[row_N], stable=True)]
    return jnp.tile(order_N, (epochs, 1))


def participants(count: int, r: int, snapshot: bool) -> jax.Array:
    """Returns flags [K] of the clients of a round of FAST."""
    return ((jnp.arange(count) + r) % 2 == 1) != snapshot


def mixture(first, other, probability) -> participation.Sampler:
    """Returns FAST's sampler with those clients and one drawn number."""

    def draw(key, count, r):
        flags_K = participants(count, r, probability > DRAWN)
        return participation.all_report(flags_K)

    return participation.BoundedSampler(draw, lambda count: count)


def drawn_rows() -> np.ndarray:
    """Returns the public rows [B] of every step of FedDF and of FedMD's digest."""
    return 37 * np.arange(BATCH)


def same_draws(row: str) -> ExitStack:
    """Replaces what methods draw, and FedPAC's mean by PFLlib's plain one.

    The code of FedPAC's authors weighs prototypes by examples, as jaxproto does.
    """
    stack, uniform, draw_images = ExitStack(), jax.random.uniform, vhl.VirtualData.draw

    def draw(key, shape=(), *args, **kwargs):
        fixed = shape == drawn_noise().shape
        return drawn_noise() if fixed else uniform(key, shape, *args, **kwargs)

    def same_images(self, _, shape):
        return draw_images(self, jax.random.key(0), shape)

    def replace(place, name, value):
        stack.enter_context(mock.patch.object(place, name, value))

    if row == "fedgen":
        replace(fedgen, "draw_labels", lambda *_: jnp.array(drawn_labels()))
        replace(jax.random, "uniform", draw)
    if row in ("feddf", "fedmd"):
        replace(jax.random, "randint", lambda *_: jnp.array(drawn_rows()))
    if row == "fedtgp":
        replace(fedtgp, "batch_orders", uploads_by_class)
    if row == "fedpac":
        replace(kernels, "mean_over_examples", kernels.mean_over_clients)
    if row == "fast":
        replace(participation, "mixture", mixture)
    if row == "vhl":
        replace(vhl.VirtualData, "draw", same_images)
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
