"""Comparison of runs that are killed at random times with undisturbed ones, by bits.

    python -m benchmarks.kills --kills=200 --folder=kills

Kinds of runs alternate: a single run, a sweep, clients in files, several devices, and
two processes, one of which is killed. A run is started and killed by SIGKILL eight
times, each time shortly after a random round, and then runs to its end. Its metrics and
its newest checkpoint must equal those of an undisturbed run. The folder keeps the
undisturbed runs and a line for each kill, so that a repeated command continues. The
exit code is 1 if bits differ.
"""

import collections
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import measure
from jaxproto.storage import checkpoint, manifest, orbax_arrays, process_shards, records
from jaxproto.storage.row_deltas import read as read_rows

FLAGS = measure.flag_values(
    kills=(200, "number of kills", 1),
    folder=("kills", "folder of all runs"),
    kinds=([], "keys of KINDS; default: all"),
    seed=(0, "seed of the rounds"),
)

SAMPLED = ["--config.participation.law=uniform", "--config.participation.fraction=0.4"]
KINDS: dict[str, list[str]] = {  # kind -> further flags
    "single": [],
    "sweep": ["--sweep=seed=0,1"],
    "disk": ["--config.clients.store=disk", *SAMPLED],
    "devices": ["--devices=4"],
    "processes": [],
}
EACH, ROUNDS = 8, 40  # kills of a run before it ends, rounds of a run
DELAY = 0.5  # seconds after a round within which a run is killed
LIMIT = 900.0  # seconds for a process to end
RUN = [
    "--config=configs/fedproto.py",
    "--config.data.clients=10",
    "--config.model.group=mlp",
    f"--config.rounds={ROUNDS}",
    "--config.eval_every=1",
    "--config.checkpoint_every=1",
]


def start(kind: str, path: Path) -> list[subprocess.Popen]:
    """Starts the processes of a run."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    if kind == "devices":
        env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    command = [sys.executable, "main.py", *RUN, *KINDS[kind], f"--workdir={path}"]
    own_flags: list[list[str]] = [[]]
    if kind == "processes":
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            address = f"--coordinator=127.0.0.1:{s.getsockname()[1]}"
        own_flags = [[address, "--processes=2", f"--process={i}"] for i in range(2)]
    out = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return [
        subprocess.Popen([*command, *flags], cwd=measure.ROOT, env=env, **out)
        for flags in own_flags
    ]


def rounds_done(path: Path) -> int:
    """Counts the rounds on record, of all runs below a folder."""
    files = [path / "metrics.jsonl", *path.glob("*/metrics.jsonl")]
    return sum(p.read_bytes().count(b"\n") for p in files if p.exists())


def killed(kind: str, path: Path, after: int, rng: random.Random) -> bool:
    """Kills one process of a run after a round; returns False if the run ended before.

    Args:
      after: Rounds on record before the kill, of all cells of a sweep.
    """
    processes = start(kind, path)
    while all(p.poll() is None for p in processes) and rounds_done(path) < after:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, DELAY))
    victim = rng.choice(processes)
    alive = victim.poll() is None
    victim.send_signal(signal.SIGKILL)
    for p in processes:
        p.communicate(timeout=LIMIT)
    return alive


def whole(kind: str, path: Path):
    """Trains a run to its end."""
    for p in start(kind, path):
        error = p.communicate(timeout=LIMIT)[1]
        if p.returncode:
            raise RuntimeError(f"{kind} in {path}: exit code {p.returncode}: {error}")


def bits(path: Path) -> dict:
    """Returns metrics except seconds, and all arrays, of the runs below a folder."""
    found = {}
    for metrics in sorted(path.rglob("metrics.jsonl")):
        rows = [{**r, "seconds": 0} for r in records.read(metrics)]
        saved = metrics.parent / "checkpoints"
        newest = saved / str(checkpoint.rounds(saved)[-1])
        arrays = orbax_arrays.read_all(newest / "state")
        arrays |= process_shards.read(newest, manifest.contents(newest)["leaves"])
        clients = dict[tuple, bytes]()
        for part in read_rows(newest):
            for name, a in part.items():
                at = part[f"{name.partition('.')[0]}.at"]
                pairs = zip(map(int, at), a, strict=True)
                clients.update(((name, i), x.tobytes()) for i, x in pairs)
        state = {name: a.tobytes() for name, a in arrays.items() if a.size}
        found[str(metrics.parent.relative_to(path))] = rows, state, clients
    return found


def lives(s: dict, folder: Path) -> list[dict]:
    """Kills runs until the number of kills is reached; returns all kills."""
    log = folder / "kills.jsonl"
    done = records.read(log) if log.exists() else []
    kinds = s["kinds"] or [*KINDS]
    while len(done) < s["kills"]:
        life = done[-1]["round"] + 1 if done else 0
        kind, rng = kinds[life % len(kinds)], random.Random(s["seed"] + life)
        path, reference = folder / "life", folder / f"whole-{kind}"
        if not (folder / f"{kind}.json").exists():
            shutil.rmtree(reference, ignore_errors=True)
            whole(kind, reference)
            (folder / f"{kind}.json").write_text(json.dumps(rounds_done(reference)))
        total = json.loads((folder / f"{kind}.json").read_text())
        shutil.rmtree(path, ignore_errors=True)
        moments = sorted(rng.sample(range(total), EACH))
        alive = [killed(kind, path, after, rng) for after in moments]
        whole(kind, path)
        same = bits(path) == bits(reference)
        if not same:
            path.rename(folder / f"lost-{life}")
        for after in (m for m, a in zip(moments, alive, strict=True) if a):
            row = {"round": life, "kind": kind, "after": after, "same": same}
            records.append(log, row)
        done = records.read(log)
        print(
            f"{len(done)} kills, {kind}: {'same bits' if same else 'LOST'}", flush=True
        )
    return done


def main():
    """Prints the table and writes the JSON file."""
    s = measure.parse(FLAGS, sys.argv, __doc__)
    folder = Path(s["folder"]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    done = lives(s, folder)
    kinds = collections.Counter(row["kind"] for row in done)
    lost = collections.Counter(row["kind"] for row in done if not row["same"])
    rows = [(kind, count, lost[kind]) for kind, count in kinds.items()]
    view = measure.table(f"{len(done)} kills", ("kind", "kills", "lost"), rows)
    measure.finish("kills", s, {"kills": kinds, "lost": lost}, [view])
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
