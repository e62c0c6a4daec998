"""Tiny runs, with every file of a run, for tests that kill runs or damage files."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from jaxproto import config
from jaxproto.experiment import traced
from jaxproto.experiment.cohorts import OFF_DEVICE
from jaxproto.storage import (
    checkpoint,
    manifest,
    orbax_arrays,
    process_shards,
    records,
    row_deltas,
)
from jaxproto.training import compiler, runner
from support import quick
from support.fields import changed

ROUNDS = 3
METHODS = ("fedproto", "protonorm", "fedtgp", "tinyproto", "fedavg")
SAMPLED = {  # so few participate that clients can be off the device
    "data__clients": 4,
    "participation__law": "uniform",
    "participation__fraction": 0.5,
}


def data(path: Path) -> Path:
    """Writes an npz file of 60 + 60 examples of five values in three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.normal(size=(60, 5)) + 3 * np.eye(5)[y]).astype(np.float32)
    np.savez(path, x_train=x, y_train=y, x_test=x[::-1], y_test=y[::-1])
    return path


def small(method: str, file: Path, **changes):
    """Two clients of one perceptron on the examples of `data`."""
    fields = {"data.name": f"npz:{file}", "data.clients": 2, "data.min_size": 10}
    fields |= {"model.group": "mlp", "model.feat_dim": 4, "local.batch_size": 10}
    fields |= {"rounds": ROUNDS, "eval_every": 1, "checkpoint_every": 1}
    if method == "fedtgp":
        fields["method.server_epochs"] = 2
    return changed(config.experiment(method, "neutral"), fields, **changes)


def run(c, path: Path) -> str:
    begins(c)
    console = Console(file=io.StringIO(), width=80)
    runner.run(c, path, console)
    return console.file.getvalue()


now: list[str] = []  # program settings of the last run, its only element


def begins(c):
    """Names the configuration whose programs are compiled next."""
    settings = {**traced.program_settings(c), "clients.store": ""}
    now[:] = [repr(sorted(settings.items()))]


@contextlib.contextmanager
def quickly():
    """Compiles equal programs once and leaves pictures, if any, unrendered."""
    compile_, compiled = compiler.compile_to_fit, {}

    def compile_to_fit(exp, *args):
        parts = [[tuple(map(int, rows)) for rows in part] for part in exp.partition]
        key = now[0], exp.store in OFF_DEVICE, repr(parts)
        if key not in compiled:
            compiled[key] = compile_(exp, *args)[1:]
        return exp, *compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "compile_to_fit", compile_to_fit)
        patch.setattr(Figure, "savefig", save_unrendered)
        yield


@pytest.fixture(scope="module")
def quick_programs():
    with quickly(), quick.with_pictures():
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_runs():
    """Of all tests of a file that has it: as `quick_programs`, without pictures."""
    with quickly():
        yield


def save_unrendered(figure, to, **_):
    to.write(repr(figure).encode())


def end(path: Path) -> tuple:
    """Returns metrics without seconds, bytes of the state and of clients in files."""
    rows = [{**r, "seconds": 0} for r in records.read(path / "metrics.jsonl")]
    saved = path / "checkpoints"
    newest = saved / str(checkpoint.rounds(saved)[-1])
    arrays = orbax_arrays.read_all(newest / "state")
    arrays |= process_shards.read(newest, manifest.contents(newest)["leaves"])
    clients = dict[tuple, bytes]()
    for part in row_deltas.read(newest):
        for name, a in part.items():
            at = part[f"{name.partition('.')[0]}.at"]
            pairs = zip(map(int, at), a, strict=True)
            clients.update(((name, i), x.tobytes()) for i, x in pairs)
    state = {name: a.tobytes() for name, a in arrays.items() if a.size}
    return rows, state, clients
