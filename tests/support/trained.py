"""A few finished runs that many tests look at, each trained once per test session.

def test_something(trained_runs, tmp_path):
    path = trained_runs("protonorm")  # to read
    path = trained_runs("protonorm", tmp_path / "run")  # a copy, to write to
"""

import fcntl
import io
import os
import shutil
from contextlib import nullcontext

import pytest
from rich.console import Console

import jaxproto
from support import quick, runs

THREE = {"rounds": 3, "eval_every": 1}
SAMPLED = {"participation__law": "uniform", "participation__fraction": 0.4}
CONFIGS = {
    # Two architectures, participation by lot, momentum that is kept; 5 rounds.
    "protonorm": runs.tiny,
    # One architecture, part of the clients in each round.
    "fedavg": lambda: runs.digits("fedavg", data__clients=5, **THREE, **SAMPLED),
    # A checkpoint of every round.
    "fedproto": lambda: runs.digits(data__clients=4, checkpoint_every=1, **THREE),
}
DRAWN = ("protonorm",)  # leaves its pictures


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory):
    """Returns a function of a name in CONFIGS, and of a place for a copy if any."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"
    root.mkdir(exist_ok=True)

    def run(name, copy=None):
        path = root / name
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / f"{name}.done").exists():
                drawn = quick.with_pictures() if name in DRAWN else nullcontext()
                with drawn:
                    jaxproto.run(CONFIGS[name](), path, Console(file=io.StringIO()))
                (root / f"{name}.done").touch()
        return path if copy is None else shutil.copytree(path, copy, dirs_exist_ok=True)

    return run
