"""HtFLlib's clients with different networks: the input file, and jaxproto's side.

    python -m benchmarks.peers.htfe8 FILE

jaxproto divides the images; its clients follow the reading `code`, which is HtFLlib's.
Each side draws its own initial networks.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
import numpy as np

from benchmarks import measure, synthetic
from benchmarks.peers import prepare, shared
from jaxproto import config as config_
from jaxproto.experiment import build

RULES = {"local": "head", "fedproto": "global"}  # method -> prediction rule of HtFLlib


class Workload(NamedTuple):
    """Sizes and training of a federation: HtFLlib's experiment on CIFAR-100."""

    group: str = "HtFE-img-8"  # client i has network i mod 8
    shape: tuple[int, int, int] = (32, 32, 3)
    classes: int = 100
    clients: int = 20
    images: int = 60_000  # of all clients, three quarters for training
    alpha: float = 0.1
    batch_size: int = 10
    learning_rate: float = 0.01
    feat_dim: int = 512
    lam: float = 10.0  # of FedProto


def config(path: str, s: dict) -> ml_collections.ConfigDict:
    """Configures a method on the images of a file, with HtFLlib's settings."""
    c = config_.experiment(s["method"], "cifar100,code")
    c.model.feat_dim, c.local.batch_size = s["feat_dim"], s["batch_size"]
    c.optimizer.learning_rate = s["learning_rate"]
    if "lam" in c.method:
        c.method.lam = s["lam"]
    partition = {"partition": "dirichlet", "alpha": s["alpha"]}
    partition["min_size"] = 2 * s["batch_size"]
    return synthetic.configured(c, path, s, **partition)


def write(path: str, settings: dict):
    """Writes the images, and the rows that jaxproto draws for every client."""
    s, total = settings, settings["images"]
    if s["data"]:
        x, y = prepare.given(s["data"], total, s["shape"])
    else:
        x, y = prepare.made_up(total, s["shape"], s["classes"])
    np.savez(path, x_train=x, y_train=y, num_classes=s["classes"])
    parts = build.experiment(config(path, s), jax.default_backend()).partition
    rows = {f"train_{k}": rows for k, rows in enumerate(parts.train)}
    rows |= {f"test_{k}": rows for k, rows in enumerate(parts.test)}
    np.savez(clients_file(path), **rows, settings=json.dumps(s))


def clients_file(path: str) -> Path:
    """Returns the file of the clients' rows and the settings, beside the images."""
    return Path(path).with_name("clients.npz")


def main(path: str):
    """Runs all rounds after compilation."""
    with np.load(clients_file(path)) as f:
        s = json.loads(str(f["settings"]))
    exp = build.experiment(config(path, s), jax.default_backend())
    run, accuracy = synthetic.Run(exp), 0.0
    for _ in range(s["rounds"]):
        clock = measure.Clock()
        run.next_round()
        clock.lap("seconds")
        record = run.evaluate()
        clock.lap("evaluation")
        accuracy = record["rules"][RULES[s["method"]]]["pooled"]
        shared.say(round=run.r, **clock.parts, pooled=accuracy)
    shared.finish(accuracy, ("jax", "jaxlib", "numpy"))


if __name__ == "__main__":
    main(sys.argv[1])
