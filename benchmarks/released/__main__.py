"""Comparison with released code: same weights, same batches, same draws.

    python -m benchmarks.released --htfllib=DIR --pfllib=DIR
    python -m benchmarks.released --pfllib=DIR --method=moon,ditto

DIR is a checkout of the repository of GitHub that `--help` names, whose classes or
functions are run. FedL2G needs the package higher, FedPAC cvxpy, ProtoNorm and
TinyProto matplotlib, FedNH and VHL also torchvision, FedMD tensorflow-cpu. Clients with
a perceptron train three rounds of the digits on both sides. The benchmark prints the
largest difference between the parameters of all clients, beside how far they moved. It
exits with status 1 if a method differs by more than TOLERANCE, or a wrong option by
less.
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks import measure
from benchmarks.released import ours, workload

RELEASES = {  # module of this folder -> repository of GitHub
    "fast": "RogerRogerUSC/FAST",
    "feddf": "epfml/federated-learning-public-code",
    "feddyn": "alpemreacar/FedDyn",
    "fedmd": "diogenes0319/FedMD_clean",
    "fednh": "Yutong-Dai/FedNH",
    "fednova": "JYWa/FedNova",
    "fedpcl": "yuetan031/FedPCL",
    "feduv": "sonhamin/FedUV",
    "fluke": "makgyver/fluke",
    "heterofl": "diaoenmao/HeteroFL-Computation-and-Communication-Efficient-"
    "Federated-Learning-for-Heterogeneous-Clients",
    "htfllib": "TsingZ0/HtFLlib",
    "pfllib": "TsingZ0/PFLlib",
    "protonorm": "regulationLee/ProtoNorm",
    "rethinkfl": "WenkeHuang/RethinkFL",
    "tinyproto": "regulationLee/TinyProto",
    "vhl": "wizard1203/VHL",
}
FLAGS = measure.flag_values(
    **{name: ("", f"checkout of {repo}") for name, repo in RELEASES.items()},
    method=([*workload.ROWS], "methods to compare"),
    fixture=("", "npz file for every 997th parameter of the released networks"),
)
TOLERANCE, STRIDE = 2e-6, 997


def compare(library: str, source: str, methods: list[str], fixture: str) -> list[dict]:
    """Compares a library's methods in this process; returns a row per method."""
    side = importlib.import_module(f"benchmarks.released.{library}")
    side.begin(Path(source))
    found, stored = [], {}
    for row in (row for row in methods if row in side.CLASSES):
        trained = ours.train(row)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            released = [*side.rounds(row, trained.start)]
        first = [ours.flat(params) for params in trained.start.clients]
        wrong = workload.ROWS[row].mistake
        missed = largest(ours.train(row, wrong).rounds, released) if wrong else None
        found.append(
            {
                "method": row,
                "library": library,
                "moved": largest([trained.rounds[-1]], [first]),
                "difference": largest(trained.rounds, released),
                "mistake": " ".join(f"{k}={v}" for k, v in wrong.items()),
                "found": missed,
            }
        )
        stored[row] = np.array(released, np.float32)[..., ::STRIDE]
    if fixture:
        known = dict(np.load(fixture)) if Path(fixture).exists() else {}
        np.savez_compressed(fixture, **known | stored)
    return found


def largest(some, others) -> float:
    """Returns the largest difference over rounds, clients and parameters."""
    return float(np.max(np.abs(np.array(some) - np.array(others))))


def main(argv):
    """Compares the methods of every library that is given."""
    settings = measure.parse(FLAGS, argv, __doc__)
    measure.check_choices(settings, "method", workload.ROWS)
    sources = {name: settings[name] for name in RELEASES if settings[name]}
    if not sources or not measure.has_torch():
        flags = ", ".join(f"--{name}" for name in RELEASES)
        sys.exit(f"error: give one of {flags}, and install PyTorch.")
    found = []
    for library, source in sources.items():  # their modules have the same names
        given = {"library": library, "source": os.path.abspath(source)}
        fixture = settings["fixture"] and os.path.abspath(settings["fixture"])
        given |= {"methods": settings["method"], "fixture": fixture}
        found += measure.fresh("benchmarks.released.__main__", "compare", given)
    columns = [*found[0]] if found else []
    table = measure.table("released code", columns, [[*row.values()] for row in found])
    measure.finish("released", settings, found, [table])
    right = [row["difference"] <= TOLERANCE for row in found]
    caught = [row["found"] is None or row["found"] > TOLERANCE for row in found]
    sys.exit(not all(right + caught))


if __name__ == "__main__":
    main(sys.argv)
