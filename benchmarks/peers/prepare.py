"""The workloads, and the file that all contenders read.

jaxproto divides the images, draws who takes part and the initial network; the file
holds what it drew, so that the others need nothing of it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.peers import ours, shared
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.training import programs
from jaxproto.types import Tree

SEED = 0  # of the run, as `synthetic.start` has it
CLASSES = 10
BLOCK = 4  # pixels of a patch of one brightness, high and wide
SPREAD, NOISE = 18.0, 60.0  # of class means and around them, in steps of brightness
CHUNK = 10_000  # images made at a time


class Workload(NamedTuple):
    """A federation and how it trains."""

    network: str
    shape: tuple[int, int, int]
    clients: int
    cohort: int  # clients of a round
    images: int  # of a client, to train on
    test: int  # images of the test set
    batch_size: int
    learning_rate: float


WORKLOADS = {
    "cifar": Workload("cnn4", (32, 32, 3), 1_000, 50, 45, 10_000, 10, 0.1),
    "logistic": Workload("logistic", (28, 28, 1), 1_000, 10, 60, 10_000, 10, 0.01),
    "logistic10k": Workload("logistic", (28, 28, 1), 10_000, 10, 60, 10_000, 10, 0.01),
}


def made_up(
    total: int, shape: Sequence[int], classes: int = CLASSES
) -> tuple[np.ndarray, np.ndarray]:
    """Images of some classes, the same at every call: a class mean and noise."""
    rng = np.random.default_rng(0)
    height, width, channels = shape
    small = (classes, -(-height // BLOCK), -(-width // BLOCK), channels)
    mean = rng.standard_normal(small).repeat(BLOCK, 1).repeat(BLOCK, 2)
    mean = 127.5 + SPREAD * mean[:, :height, :width].astype(np.float32)
    y = rng.permutation(np.arange(total) % classes).astype(np.int32)
    x = np.empty((total, *shape), np.uint8)
    for i in range(0, total, CHUNK):
        here = y[i : i + CHUNK]
        noise = rng.standard_normal((len(here), *shape), np.float32)
        x[i : i + CHUNK] = np.clip(mean[here] + NOISE * noise, 0, 255)
    return x, y


def given(path: str, total: int, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The first images of a file.

    Raises:
      ValueError: one line that says what the file lacks.
    """
    with np.load(path) as f:
        if missing := {"x", "y"} - {*f.files}:
            raise ValueError(f"{path} lacks {', '.join(sorted(missing))}.")
        x, y = f["x"], f["y"].ravel()
    if x.dtype != np.uint8 or x.shape[1:] != tuple(shape):
        raise ValueError(
            f"{path}: x is {x.dtype} {list(x.shape)}; this workload takes uint8 "
            f"[N, {', '.join(map(str, shape))}]."
        )
    if min(len(x), len(y)) < total:
        raise ValueError(
            f"{path} has {len(x)} images and {len(y)} labels, but {total} are needed; "
            "take fewer clients (--clients) or test images (--test)."
        )
    return x[:total], y[:total].astype(np.int32)


def images(path: Path, s: dict):
    """Writes training and test images, with the keys that jaxproto reads.

    Args:
      s: settings; `data` is a file of one's own or nothing.

    Raises:
      ValueError: of `given`.
    """
    first = s["clients"] * s["images"]
    total = first + s["test"]
    x, y = (
        given(s["data"], total, s["shape"]) if s["data"] else made_up(total, s["shape"])
    )
    train, test = slice(first), slice(first, total)
    parts = {"x_train": x[train], "y_train": y[train], "x_test": x[test]}
    np.savez(path, **parts, y_test=y[test], num_classes=int(y.max()) + 1)


def complete(path: str, settings: dict):
    """Adds to the images what jaxproto draws; a fresh process calls this."""
    exp = build.experiment(ours.config(path, settings), jax.default_backend())
    with np.load(path) as f:
        arrays = dict(f)
    rows = np.stack(exp.partition.train)
    if not np.array_equal(exp.dataset.y[rows], arrays["y_train"][rows]):
        raise AssertionError("rows of clients are not those of the training images")
    server, cohorts = drawn(exp, settings["rounds"])
    start = {shared.LAYER.format(i): a for i, a in enumerate(layers(server))}
    text = json.dumps(settings)
    np.savez(path, **arrays, **start, clients=rows, cohorts=cohorts, settings=text)


def drawn(exp: Experiment, total: int) -> tuple[Tree, np.ndarray]:
    """The first network, and who takes part in each round [R, P]."""
    run = programs.with_floats(programs.build_programs(exp), exp.floats)
    server = run.start_server(programs.keys(SEED)[1])
    cohorts = [
        np.flatnonzero(run.participate(programs.round_context(SEED, r), server).trains)
        for r in range(total)
    ]
    return server, np.stack(cohorts)


def layers(params: Tree) -> list[np.ndarray]:
    """Weight and bias of every layer, in PyTorch's layout.

    The names of the layers sort as they follow each other, and `bias` before `kernel`.
    """
    leaves, out = jax.tree.leaves(params), []
    for bias, kernel in zip(leaves[::2], leaves[1::2], strict=True):
        weight = np.asarray(kernel)
        axes = (3, 2, 0, 1) if weight.ndim == 4 else (1, 0)
        out += [np.ascontiguousarray(weight.transpose(axes)), np.asarray(bias)]
    return out
