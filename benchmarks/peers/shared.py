"""Common parts of all contenders: the input file, printed lines and peak memory.

A contender runs in the environment of its own framework, reads one npz file and prints
lines of JSON, one per round and one at the end. This module needs only NumPy.
"""

import importlib.metadata
import json
import os
import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

CHUNK = 500  # test images at a time
LAYER = "start_{}"  # name in the file of the i-th array of the initial network


class Federation(NamedTuple):
    """Content of the input file of a benchmark."""

    settings: dict  # network, batch_size, learning_rate
    x: np.ndarray  # [N, H, W, channels] uint8, training images of all clients
    y: np.ndarray  # [N]
    test_x: np.ndarray
    test_y: np.ndarray
    clients: np.ndarray  # [K, M] rows of `x`
    cohorts: np.ndarray  # [R, P] participants of each round
    start: list[np.ndarray]  # initial parameters, in PyTorch's order and layout

    def steps(self) -> int:
        """Returns the number of whole batches of a client."""
        return self.clients.shape[1] // self.settings["batch_size"]


def load(path: str | Path) -> Federation:
    """Reads the input file."""
    with np.load(path) as f:
        layers = [name for name in f.files if name.startswith(LAYER.format(""))]
        return Federation(
            settings=json.loads(str(f["settings"])),
            x=f["x_train"],
            y=f["y_train"].astype(np.int64),
            test_x=f["x_test"],
            test_y=f["y_test"].astype(np.int64),
            clients=f["clients"],
            cohorts=f["cohorts"],
            start=[f[LAYER.format(i)] for i in range(len(layers))],
        )


def decode(x: np.ndarray) -> np.ndarray:
    """Converts images from uint8 to float32 in [-1, 1]."""
    return x.astype(np.float32) / np.float32(127.5) - np.float32(1)


def epoch(fed: Federation, client: int, rng: np.random.Generator) -> np.ndarray:
    """Returns rows of a client in a new order, cut to whole batches."""
    used = fed.steps() * fed.settings["batch_size"]
    return rng.permutation(fed.clients[client])[:used]


def accuracy(predict: Callable, fed: Federation) -> float:
    """Returns the test accuracy of a function from images to classes."""
    starts = range(0, len(fed.test_y), CHUNK)
    found = [np.asarray(predict(fed.test_x[i : i + CHUNK])) for i in starts]
    return float((np.concatenate(found) == fed.test_y).mean())


def say(**entry):
    """Prints a line of JSON, which `read` finds in the output of a framework."""
    print(json.dumps(entry), flush=True)


def finish(accuracy: float, packages: Iterable[str]):
    """Prints the last line of a contender; its main process calls this."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    say(accuracy=float(accuracy), peak_bytes=peaks(), versions=versions)


def read(text: str) -> tuple[list[float], dict]:
    """Returns the seconds of all rounds, and the last line, of a contender's output.

    The last line also gets the lines of the rounds, as `rounds`.

    Raises:
      ValueError: there is no last line.
    """
    rounds, last = [], None
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict):
            continue
        if "seconds" in entry:
            rounds.append(entry)
        elif "accuracy" in entry:
            last = entry
    if last is None:
        raise ValueError("printed no accuracy at its end.")
    return [entry["seconds"] for entry in rounds], last | {"rounds": rounds}


def peaks() -> list[int]:
    """Returns peak resident bytes of this process, then of its descendants.

    A page that processes share counts in each. Descendants are known on Linux only.
    """
    if not Path("/proc/self/status").exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit]
    pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    found = {pid: status for pid in pids if (status := _status(pid))}
    family = [os.getpid()]
    for pid in family:  # grows in the loop
        family += [p for p, s in found.items() if int(s["PPid"]) == pid]
    known = [found[pid] for pid in family if pid in found]
    return [int(s["VmHWM"].split()[0]) * 1024 for s in known if "VmHWM" in s]


def _status(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # the process has ended
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)
