"""HtFLlib's program on the clients of the file, from a clone of its repository.

    python -m benchmarks.peers.with_htfllib FILE

Its `main.py` runs as released, with changes from outside: methods that need further
packages are replaced by empty modules, `torch.load` accepts whole networks, and an
evaluation prints a line. HtFLlib evaluates at the start of a round and includes its
seconds; here they are subtracted.
"""

import functools
import json
import os
import runpy
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.peers import environments, shared

GENERATORS = ("stylegan_xl", "stylegan_3", "stable_diffusion")
NAMES = {"local": "Local", "fedproto": "FedProto"}  # names of algorithms
ABSENT = {  # module -> name that is imported from it
    **{f"flcore.servers.serverktl_{k}": "FedKTL" for k in GENERATORS},
    **{f"flcore.servers.serverl2g_{k}": "FedL2G" for k in ("feat", "logit")},
    "utils.mem_utils": "MemReporter",
}
DATA = "peers"  # name of the data set


class Done(Exception):
    """Ends the program after the last evaluation; has its accuracy."""


def write_clients(path: str, folder: Path):
    """Writes the examples of every client in HtFLlib's format."""
    with np.load(path) as images, np.load(Path(path).with_name("clients.npz")) as f:
        x, y, clients = images["x_train"], images["y_train"], _settings(f)["clients"]
        for part in ("train", "test"):
            (folder / part).mkdir(parents=True)
            for k in range(clients):
                rows = f[f"{part}_{k}"]
                first = shared.decode(x[rows]).transpose(0, 3, 1, 2)
                data = np.array({"x": first, "y": y[rows]}, object)
                np.savez(folder / part / f"{k}.npz", data=data)


def _settings(f) -> dict:
    return json.loads(str(f["settings"]))


def saying(evaluate: Callable, rounds: int) -> Callable:
    """Wraps the server's evaluation, to print the line of the round before it."""
    last = 0.0

    def evaluation(server, *args):
        nonlocal last
        start = time.perf_counter()
        evaluate(server, *args)
        seconds, done = time.perf_counter() - start, len(server.Budget)
        if done:
            spent = {"seconds": server.Budget[-1] - last, "evaluation": seconds}
            shared.say(round=done, **spent, pooled=server.rs_test_acc[-1])
        last = seconds
        if done == rounds:
            raise Done(server.rs_test_acc[-1])

    return evaluation


def arguments(s: dict) -> list[str]:
    """Returns the command line of HtFLlib."""
    flags = {
        **{"-data": DATA, "-ncl": s["classes"], "-m": s["group"], "-nc": s["clients"]},
        **{"-algo": NAMES[s["method"]], "-gr": s["rounds"], "-lbs": s["batch_size"]},
        **{"-lr": s["learning_rate"], "-fd": s["feat_dim"], "-lam": s["lam"]},
    }
    return [str(word) for pair in flags.items() for word in pair]


def main(path: str):
    """Runs all rounds."""
    path = os.path.abspath(path)
    with np.load(Path(path).with_name("clients.npz")) as f:
        s = _settings(f)
    source = environments.htfllib(Path(s["venvs"])) / "system"
    sys.path.insert(0, str(source))
    for name, entry in ABSENT.items():
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], entry, object)
    torch.load = functools.partial(torch.load, weights_only=False)
    server = __import__("flcore.servers.serverbase", fromlist=["Server"]).Server
    server.evaluate = saying(server.evaluate, s["rounds"])
    with tempfile.TemporaryDirectory() as folder:
        write_clients(path, Path(folder) / "dataset" / DATA)
        (Path(folder) / "system").mkdir()
        os.chdir(Path(folder) / "system")  # HtFLlib reads ../dataset
        sys.argv = ["main.py", *arguments(s)]
        try:
            runpy.run_path(str(source / "main.py"), run_name="__main__")
        except Done as done:
            os.chdir("/")
            shared.finish(done.args[0], ("torch", "torchvision", "numpy"))


if __name__ == "__main__":
    main(sys.argv[1])
