"""Federations on random images, for benchmarks in which only sizes matter."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import ml_collections
import numpy as np

from benchmarks import measure
from jaxproto import config as config_
from jaxproto.devices.mesh import ONE, OneDevice
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.training import compiler, data_placement, engine, programs
from jaxproto.training.engine import LocalEngine
from jaxproto.training.stores import open_store

AS_RELEASED = {  # loss and batches of the released code
    "method.lam": 10.0,
    "method.reg": "mse_mean",
    "method.collect": "after_training",
    "local.order": "fixed",
    "local.short": "skip",
}
FIELDS = {  # setting of a benchmark -> field
    "batch": "local.batch_size",
    "clients": "data.clients",
    "dim": "model.feat_dim",
    "form": "clients_at_once",
    "group": "model.group",
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


def plain(method: str, fields: Mapping) -> ml_collections.ConfigDict:
    """Configures a method without presets, with other values in some flat fields."""
    c = config_.default_config(method)
    c.update_from_flattened_dict(fields)
    return c


def configured(
    base: ml_collections.ConfigDict, path: Path, s: Mapping, **data_fields
) -> ml_collections.ConfigDict:
    """Completes a configuration: images of a file, settings of FIELDS; checks it."""
    fields = {f"data.{name}": value for name, value in data_fields.items()}
    fields |= {FIELDS[name]: s[name] for name in FIELDS if name in s}
    base.update_from_flattened_dict({"data.name": f"npz:{path}", **fields})
    config_.check(base)
    return base


def equal_clients(
    s: Mapping,
    base: ml_collections.ConfigDict | None = None,
    channels: int = 3,
    layout: OneDevice = ONE,
) -> tuple[ml_collections.ConfigDict, Experiment]:
    """Builds clients of `train` and `test` random images each, split iid.

    The configuration names the data "made up", because their file is removed.

    Args:
      s: settings: clients, train, test, pixels, classes, and others of FIELDS.
      base: configuration to start from; default: ProtoNorm as released.
      channels: channels of an image.
      layout: devices.
    """
    per_client, base = s["train"] + s["test"], base or plain("protonorm", AS_RELEASED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        shape = s["pixels"], s["pixels"], channels
        save(path, s["clients"] * per_client, shape, s["classes"])
        share = (s["train"] + 0.5) / per_client  # the split rounds down
        c = configured(base, path, s, partition="iid", train_share=share)
        exp = build.experiment(c, jax.default_backend(), layout=layout)
    c.data.name = "made up"
    return c, exp


class Run:
    """Rounds of a federation with the compiled programs of a run."""

    def __init__(
        self, exp: Experiment, seed: int = 0, folder: Path = Path(), compiled=None
    ):
        """Compiles all programs and initialises the state, as the runner does.

        Args:
          exp: federation.
          seed: seed of the run.
          folder: folder for clients that are kept in files.
          compiled: programs and seconds of `compile_all`, if it was called before.
        """
        examples, tables = data_placement.place_data(exp)
        unbound, self.compile_seconds = compiled or compiler.compile_all(exp, examples)
        compiled = programs.with_floats(unbound, exp.floats, exp.layout.put)
        self.state = programs.init(exp, seed, compiled)
        store = open_store(exp, compiled, seed, folder, tables)
        self.work = LocalEngine(exp, examples, compiled, seed, store)
        self.r, self.seen = 0, None

    def next_round(self):
        """Trains the next round, with the server's step."""
        self.state, self.seen = engine.next_state(self.work, self.r, self.state)
        self.r += 1

    def evaluate(self, work: LocalEngine | None = None) -> dict:
        """Evaluates the last round, by another engine if one is given."""
        work = work or self.work
        return engine.evaluate(work, self.r, self.state, self.seen, [1.0])

    def timed_round(self, training: str = "training") -> dict[str, float]:
        """Returns the seconds of a round, by the name `training`, and an evaluation."""
        clock = measure.Clock()
        self.next_round()
        clock.lap(training)
        self.evaluate()
        clock.lap("evaluation")
        return clock.parts

    def required_bytes(self) -> int:
        """Returns the bytes that the largest program needs."""
        return compiler.required_bytes(
            f.func for f in jax.tree.leaves(self.work.compiled)
        )
