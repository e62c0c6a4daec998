"""Memory, files and threads of a long run with many clients: they must not grow.

    python -m benchmarks.soak

A run of FedProto on random data has clients in files, a small MLP, and in every 10th
round a checkpoint and an evaluation of 50 clients. After every 10th round, the
benchmark reads resident memory, open files and threads of the process. The exit code is
1 if the last quarter of the run exceeds the second, by medians: in memory by more than
2% and 5 MiB, in files or threads by any number.
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import jaxproto
from benchmarks import measure
from jaxproto import config as config_
from jaxproto.callbacks import Callback

FLAGS = measure.flag_values(
    clients=(1000, "number of clients", 1),
    rounds=(1000, "number of rounds", 400),  # memory settles in the first 100
    store=("disk", "see clients.store"),
    fraction=(0.05, "participation.fraction"),
)

EVERY = 10  # rounds between two samples
PER_CLIENT = 12  # examples, a quarter of them for tests
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sampler(Callback):
    """Callback that samples memory, files and threads of the process."""

    def __init__(self):
        """Starts without samples."""
        self.samples, self._start = [], time.perf_counter()

    def on_round(self, record):
        """Adds a sample in every 10th round."""
        if record["round"] % EVERY == 0:
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
            files = len(os.listdir("/proc/self/fd"))
            seconds = time.perf_counter() - self._start
            sample = [record["round"], resident, files, threading.active_count()]
            self.samples.append([*sample, seconds])


def data(path: Path, clients: int):
    """Writes random examples of ten classes."""
    rng, count = np.random.default_rng(0), clients * PER_CLIENT
    y = np.arange(count) % 10
    x = (rng.normal(size=(count, 32)) + 3 * np.eye(10, 32)[y]).astype(np.float32)
    np.savez(path, x_train=x, y_train=y, x_test=x[:100], y_test=y[:100])


def soak(s: dict) -> dict:
    """Trains, and returns the samples."""
    c = config_.experiment("fedproto", "neutral")
    c.rounds, c.data.clients = s["rounds"], s["clients"]
    c.eval_every, c.eval.clients = EVERY, "50"
    c.model.group, c.model.feat_dim, c.checkpoint_every = "mlp", 16, 10
    c.participation.law, c.participation.fraction = "uniform", s["fraction"]
    c.clients.store, c.data.partition, c.local.batch_size = s["store"], "iid", 4
    sampler = Sampler()
    with tempfile.TemporaryDirectory() as folder:
        data(Path(folder) / "toy.npz", s["clients"])
        c.data.name = f"npz:{folder}/toy.npz"
        quiet = Console(quiet=True)
        jaxproto.run(c, Path(folder) / "run", quiet, callbacks=[sampler])
    return {"samples": sampler.samples}


def grown(samples: list) -> list[str]:
    """Returns the resources that grew from the second quarter to the last."""
    rows, n = np.array(samples), len(samples)
    second, last = (np.median(rows[k * n // 4 : (k + 1) * n // 4], 0) for k in (1, 3))
    allowed = [0, max(0.02 * second[1], 5 * 2**20), 0, 0]
    names = ("", "memory", "files", "threads")
    return [names[k] for k in (1, 2, 3) if last[k] > second[k] + allowed[k]]


def main():
    """Prints the table and writes the JSON file."""
    s = measure.parse(FLAGS, sys.argv, __doc__)
    results = soak(s)
    rows = results["samples"][:: max(1, len(results["samples"]) // 10)]
    shown = [(r, m / 2**20, files, n, t) for r, m, files, n, t in rows]
    columns = ("round", "MiB", "files", "threads", "seconds")
    results["grown"] = grown(results["samples"])
    view = measure.table(f"{s['clients']} clients", columns, shown)
    measure.finish("soak", s, results, [view])
    sys.exit(f"grown: {', '.join(results['grown'])}" if results["grown"] else 0)


if __name__ == "__main__":
    main()
