"""jaxproto as a contender: configuration, logistic regression and rounds.

python -m benchmarks.peers.ours FILE
"""

import math
import sys
import time

import jax
import ml_collections

from benchmarks import synthetic
from benchmarks.peers import shared
from jaxproto import models
from jaxproto.core.types import Net
from jaxproto.experiment import build
from jaxproto.models.from_modules import make_net
from jaxproto.models.mlp import Perceptron
from jaxproto.models.ops import Ops

HIDDEN = 512  # units of cnn4 below its head


def logistic(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """Builds logistic regression: a head on all `feat_dim` pixels."""
    widths = (math.prod(input_shape),)
    return make_net(
        lambda draws: Perceptron(widths, False, draws),
        num_classes=num_classes,
        feat_dim=feat_dim,
        ops=ops,
    )


def config(path: str, s: dict) -> ml_collections.ConfigDict:
    """Configures FedAvg on the images of a file.

    Args:
      path: npz file with at least the keys of Keras.
      s: settings of the workload.
    """
    models.NETS["logistic"] = logistic
    pixels = math.prod(s["shape"])
    fields = {
        "model.group": s["network"],
        "model.feat_dim": HIDDEN if s["network"] == "cnn4" else pixels,
        "local.epochs": 1,
        "local.batch_size": s["batch_size"],
        "optimizer.name": "sgd",
        "optimizer.learning_rate": s["learning_rate"],
        "participation.law": "uniform",
        "participation.fraction": s["cohort"] / s["clients"],
    }
    base = synthetic.plain("fedavg", fields)
    # without a pool the test images stay apart
    return synthetic.configured(base, path, s, partition="iid", pool=False)


def main(path: str):
    """Runs all rounds after compilation."""
    fed = shared.load(path)
    exp = build.experiment(config(path, fed.settings), jax.default_backend())
    total = len(fed.cohorts)
    del fed  # frees its images
    run = synthetic.Run(exp)
    for _ in range(total):
        start = time.perf_counter()
        run.next_round()
        shared.say(round=run.r, seconds=time.perf_counter() - start)
    accuracy = run.evaluate()["rules"]["received"]["pooled"]
    shared.finish(accuracy, ("jax", "jaxlib", "numpy"))


if __name__ == "__main__":
    main(sys.argv[1])
