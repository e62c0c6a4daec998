"""Workloads, and the input file of all contenders.

jaxproto divides the images and draws the participants and the initial network. The file
contains them, so that the other contenders do not need jaxproto.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.peers import ours, shared
from jaxproto.core.types import Tree
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.training import programs

SEED = 0  # seed of the run, the default of `synthetic.Run`
CLASSES = 10
BLOCK = 4  # height and width of patches of one brightness, in pixels
SPREAD, NOISE = 18.0, 60.0  # std of class means and of noise, in brightness
CHUNK = 10_000  # images at a time


class Workload(NamedTuple):
    """Sizes and training of a federation."""

    network: str
    shape: tuple[int, int, int]
    clients: int
    cohort: int  # clients of a round
    images: int  # of a client, for training
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
    """Draws images and labels with a fixed seed: class means plus noise."""
    rng = np.random.default_rng(0)
    height, width, channels = shape
    small = (classes, -(-height // BLOCK), -(-width // BLOCK), channels)
    mean = rng.standard_normal(small).repeat(BLOCK, 1).repeat(BLOCK, 2)
    mean = 127.5 + SPREAD * mean[:, :height, :width].astype(np.float32)
    y = rng.permutation(np.arange(total) % classes).astype(np.int32)
    x = np.empty((total, *shape), np.uint8)
    for i in range(0, total, CHUNK):
        labels = y[i : i + CHUNK]
        noise = rng.standard_normal((len(labels), *shape), np.float32)
        x[i : i + CHUNK] = np.clip(mean[labels] + NOISE * noise, 0, 255)
    return x, y


def given(path: str, total: int, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Reads the first images and labels of a file.

    Raises:
      ValueError: the file is not suitable; the message says why.
    """
    with np.load(path) as f:
        if missing := {"x", "y"} - {*f.files}:
            raise ValueError(f"{path} lacks {', '.join(sorted(missing))}.")
        x, y = f["x"], f["y"].ravel()
    if x.dtype != np.uint8 or x.shape[1:] != tuple(shape):
        raise ValueError(
            f"{path}: x is {x.dtype} {list(x.shape)}; this workload needs uint8 "
            f"[N, {', '.join(map(str, shape))}]."
        )
    if min(len(x), len(y)) < total:
        raise ValueError(
            f"{path} has {len(x)} images and {len(y)} labels, but {total} are needed; "
            "choose fewer --clients, --images or --test."
        )
    return x[:total], y[:total].astype(np.int32)


def images(path: Path, s: dict):
    """Writes training and test images, with the keys that jaxproto reads.

    Args:
      path: file to write.
      s: settings; `data` is a file of images, or "" for random ones.

    Raises:
      ValueError: the file of images is not suitable.
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
    """Adds clients, participants and network to the file, in a fresh process."""
    exp = build.experiment(ours.config(path, settings), jax.default_backend())
    with np.load(path) as f:
        arrays = dict(f)
    rows = np.stack(exp.partition.train)
    if not np.array_equal(exp.dataset.y[rows], arrays["y_train"][rows]):
        raise AssertionError("clients have other rows than the training images")
    server, cohorts = drawn(exp, settings["rounds"])
    start = {shared.LAYER.format(i): a for i, a in enumerate(layers(server))}
    text = json.dumps(settings)
    np.savez(path, **arrays, **start, clients=rows, cohorts=cohorts, settings=text)


def drawn(exp: Experiment, total: int) -> tuple[Tree, np.ndarray]:
    """Returns the initial network, and the participants of each round [R, P]."""
    run = programs.with_floats(programs.build_programs(exp), exp.floats)
    server = run.start_server(programs.keys(SEED)[1])
    cohorts = [
        np.flatnonzero(run.participate(programs.round_context(SEED, r), server).trains)
        for r in range(total)
    ]
    return server, np.stack(cohorts)


def layers(params: Tree) -> list[np.ndarray]:
    """Returns weight and bias of every layer, in PyTorch's layout.

    The names of the layers must sort in their order, and `bias` sorts before `kernel`.
    """
    leaves, arrays = jax.tree.leaves(params), []
    for bias, kernel in zip(leaves[::2], leaves[1::2], strict=True):
        weight = np.asarray(kernel)
        axes = (3, 2, 0, 1) if weight.ndim == 4 else (1, 0)
        arrays += [np.ascontiguousarray(weight.transpose(axes)), np.asarray(bias)]
    return arrays
