"""jaxproto's side of the comparison with released code: a small federation.

Batches are in the order of the data, so that both sides take the same steps. Where a
release follows a rule that a method documents as its option, `workload` chooses it.
Rules of a release that no option chooses are in `as_released`.
"""

import shutil
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
from benchmarks.released import workload
from jaxproto import config as config_
from jaxproto.core.types import Tree
from jaxproto.experiment import build
from jaxproto.experiment.method_builder import public_inputs
from jaxproto.methods import fedgen, fedkd, fedl2g, fedtgp, vhl
from jaxproto.models import to_torch
from jaxproto.prototypes import kernels
from jaxproto.round import participation
from jaxproto.training.programs import State


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
        save_data(path, workload.OTHER_SIZES.get(row, workload.SIZES))
        shutil.copy(path, path.with_name("public.npz"))
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
        for _ in range(workload.ROUNDS):
            run.state = as_released(row, run.state, start)
            run.next_round()
            made.append([flat(params) for params in of_clients()])
    return Trained(start, made)


def save_data(path: Path, sizes: tuple[int, ...]):
    """Writes digits of clients with six of the ten classes each."""
    x, y = load_digits(return_X_y=True)
    rng, picked = np.random.default_rng(0), []
    for i, size in enumerate(sizes):
        mine = np.flatnonzero((y + 3 * i) % workload.CLASSES < 6)
        picked.append(rng.choice(mine, size, replace=False))
    at, domain = np.concatenate(picked), np.repeat(np.arange(len(sizes)), sizes)
    pixels = (15 * x[at]).astype(np.uint8).reshape(-1, *workload.SHAPE)
    every = {"x": pixels, "y": y[at].astype(np.int32), "domain": domain}
    arrays = {f"{k}_{part}": v for k, v in every.items() for part in ("train", "test")}
    np.savez(path, **arrays)


def configuration(row: str, data: str, changed: Mapping):
    """Returns the configuration of a row."""
    method = row.removesuffix("_aps").removesuffix("_logits")
    config = config_.load(f"{measure.ROOT}/configs/{method}.py:digits")
    given = {**workload.ROWS[row].options, **changed}
    options = {k if "." in k else f"method.{k}": v for k, v in given.items()}
    clients = {
        "data.clients": len(workload.OTHER_SIZES.get(row, workload.SIZES)),
        "data.name": data,
    }
    config.update_from_flattened_dict({**workload.COMMON, **clients, **options})
    if config.data.public_share:  # all digits are public, in a file of their own
        public = data.replace("digits", "public")
        config.data.update(public_share=0.0, public_source=public)
    config_.check(config)
    return config


def flat(params: Tree) -> np.ndarray:
    """Returns the parameters of a client's own network [P], by PyTorch's names."""
    arrays = to_torch(params["net"], {})
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


def drawn_labels() -> np.ndarray:
    """Returns the labels [B] of features that FedGen generates."""
    return 7 * np.arange(workload.BATCH) % workload.CLASSES


def drawn_noise() -> np.ndarray:
    """Returns the noise [B, N] of FedGen's generator."""
    size = workload.BATCH, workload.GEN["noise"]
    return (0.618 * np.arange(1, np.prod(size) + 1) % 1).reshape(size)


def uploads_by_class(here_N: jax.Array, epochs: int, key: jax.Array) -> jax.Array:
    """Returns orders [E, N] of uploads by class and then client, absent ones last."""
    row_N = jnp.arange(len(here_N)).reshape(-1, workload.CLASSES).T.ravel()
    order_N = row_N[jnp.argsort(~here_N[row_N], stable=True)]
    return jnp.tile(order_N, (epochs, 1))


def participants(count: int, r: int, snapshot: bool) -> jax.Array:
    """Returns flags [K] of the clients of a round of FAST."""
    return ((jnp.arange(count) + r) % 2 == 1) != snapshot


def mixture(first, other, probability) -> participation.Sampler:
    """Returns FAST's sampler with those clients and one drawn number."""

    def draw(key, count, r):
        flags_K = participants(count, r, probability > workload.DRAWN)
        return participation.all_report(flags_K)

    return participation.BoundedSampler(draw, lambda count: count)


def drawn_rows() -> np.ndarray:
    """Returns the public rows [B] of every step of FedDF and of FedMD's digest."""
    return 37 * np.arange(workload.BATCH)


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
