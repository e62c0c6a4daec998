"""Federations on random images, for benchmarks in which only sizes matter."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
import numpy as np

from jaxproto import config as config_
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.mesh import ONE, OneDevice
from jaxproto.training import compiler, data_placement, programs
from jaxproto.training.programs import State
from jaxproto.training.rounds import RoundEnvironment
from jaxproto.training.stores import open_store

AS_RELEASED = {  # loss and batches of the released code
    "method.lam": 10.0,
    "method.reg": "mse_mean",
    "method.collect": "after_training",
    "local.order": "fixed",
    "local.short": "skip",
}


def images(examples: int, shape: Sequence[int], classes: int):
    """Returns random images [N, H, W, channels] as uint8, and balanced labels [N]."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (examples, *shape), np.uint8)
    return x, rng.permutation(np.arange(examples) % classes).astype(np.int32)


def save(path: Path, examples: int, shape: Sequence[int], classes: int):
    """Writes random images to an npz file that the configuration `npz:PATH` reads."""
    x, y = images(examples, shape, classes)
    np.savez(path, x_train=x, y_train=y, num_classes=classes)


def config(path: Path, clients: int, **fields) -> ml_collections.ConfigDict:
    """Configures ProtoNorm on the images of a file.

    Args:
      path: npz file.
      clients: number of clients.
      **fields: further fields; `__` stands for the dot of a name.
    """
    made = config_.default("protonorm")
    fields = {name.replace("__", "."): value for name, value in fields.items()}
    given = {"data.name": f"npz:{path}", "data.clients": clients}
    made.update_from_flattened_dict({**AS_RELEASED, **given, **fields})
    config_.check(made)
    return made


def equal_clients(
    *,
    clients: int,
    train: int,
    test: int,
    shape: Sequence[int],
    classes: int,
    layout: OneDevice = ONE,
    **fields,
) -> tuple[ml_collections.ConfigDict, Experiment]:
    """Builds clients of `train` and `test` random images each, split iid.

    The configuration names the data "made up", because their file is removed.
    """
    each = train + test
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        save(path, clients * each, shape, classes)
        share = (train + 0.5) / each  # the split rounds down
        how = {"data__partition": "iid", "data__train_share": share}
        made = config(path, clients, **how, **fields)
        exp = build.experiment(made, jax.default_backend(), layout=layout)
    made.data.name = "made up"
    return made, exp


class Start(NamedTuple):
    """Compiled programs and initial state of a measured run."""

    work: RoundEnvironment
    state: State  # before round 1
    compile_seconds: float


def start(exp: Experiment, seed: int = 0, folder: Path = Path()) -> Start:
    """Compiles all programs and initialises the state, as the runner does.

    Args:
      exp: federation.
      seed: seed of the run.
      folder: folder for clients that are kept in files.
    """
    examples, tables = data_placement.place_data(exp)
    compiled, seconds = compiler.compile_all(exp, examples)
    compiled = programs.with_floats(compiled, exp.floats, exp.layout.put)
    state = programs.init(exp, seed, compiled)
    store = open_store(exp, compiled, seed, folder, tables)
    work = RoundEnvironment(exp, examples, compiled, seed, store)
    return Start(work, state, seconds)
