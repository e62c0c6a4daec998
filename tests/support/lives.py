"""Random lives of runs, whose ends must be those of undisturbed runs, bit for bit.

`python lives.py FOLDER SECONDS SEED`: runs and sweeps are killed (`killing.Shim`),
damaged, resumed, made longer and compared. Prints JSON: numbers of lives and steps, and
failures by the seed of the life, which `python lives.py FOLDER 0 SEED` repeats.
"""

import collections
import json
import random
import shutil
import sys
import time
import traceback
from pathlib import Path

CASES = [(m, "device") for m in ("fedproto", "tinyproto", "fedavg", "fedtgp")]
CASES += [("fedproto", "disk"), ("protonorm", "host")]
LONGEST = 8  # rounds
STEPS = 8  # of a life, before its end
SEEDS = (0, 1)  # of a sweep


def flip(rng, run, newest):
    """Flips a bit of any file of the newest checkpoint, and so of its hard links."""
    file = any_file(rng, newest)
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def cut(rng, run, newest):
    file = any_file(rng, newest)
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def lose(rng, run, newest):
    any_file(rng, newest).unlink()


def lose_all(rng, run, newest):
    shutil.rmtree(newest)


def tear(rng, run, newest):
    """Cuts the last record, as a kill in the middle of a write leaves it."""
    file = run / "metrics.jsonl"
    content = file.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    file.write_bytes(content[: rng.randrange(last, len(content))])


def leave(rng, run, newest):
    """Leaves the files of other programs and of killed processes in a run."""
    (run / "checkpoints" / "99.partial" / "rows").mkdir(parents=True)
    for name in ("x-y", "3-5") if (newest / "rows").exists() else ():
        (newest / "rows" / name).mkdir()
    (run / "config.json.new").write_text("{")
    (run / ".DS_Store").write_text("")


def unharmed(rng, run, newest):
    """Its summary goes, as after every damage: else the run has ended."""


DAMAGE = (flip, cut, lose, lose_all, tear, unharmed, leave)


def any_file(rng, folder):
    files = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size]
    return rng.choice(sorted(files))


class Life:
    """A run, or the cells of a sweep, from its start to its end."""

    def __init__(self, folder: Path, seed: int, shim, wholes: dict):
        self.rng, self.shim, self.wholes = random.Random(seed), shim, wholes
        self.folder, self.path = folder, folder / f"life-{seed}"
        self.method, self.store = self.rng.choice(CASES)
        self.sweeps = self.store == "device" and self.rng.random() < 0.3
        self.rounds, self.steps = self.rng.randint(2, 4), []

    def config(self, rounds, seed=0):
        off = attacked.SAMPLED | {"clients__store": self.store}
        extra = off if self.store != "device" else {}
        file = self.folder / "toy.npz"
        return attacked.small(self.method, file, rounds=rounds, seed=seed, **extra)

    def runs(self) -> list[Path]:
        if not self.sweeps:
            return [self.path]
        return [p.parent for p in sorted(self.path.glob("*/config.json"))]

    def go_on(self, at: int = 0) -> bool:
        """Starts or resumes; returns whether it ended. `at`: the call that kills it."""
        self.shim.arm(at)
        try:
            if self.sweeps:
                c, how = self.config(self.rounds), SweepOptions("one")
                attacked.begins(c)
                jaxproto.sweep(c, {"seed": [*SEEDS]}, self.path, QUIET, how)
            else:
                attacked.run(self.config(self.rounds), self.path)
        except killing.Killed:
            return False
        finally:
            self.shim.on = False
        return True

    def kill(self):
        self.go_on(self.rng.choice([self.rng.randint(1, 40), self.rng.randint(1, 400)]))

    def damage(self):
        """Damages runs that have an older checkpoint to fall back to."""
        for run in self.runs():
            saved = [*(run / "checkpoints").glob("[0-9]")]
            if len(saved) < 2:
                continue
            how = self.rng.choice(DAMAGE)
            self.steps.append(f"{how.__name__} {run.name}")
            how(self.rng, run, max(saved))
            (run / "summary.json").unlink(missing_ok=True)
            self.finish()

    def extend(self):
        self.rounds = min(LONGEST, self.rounds + self.rng.randint(1, 2))

    def compare(self):
        for run in self.runs():
            try:
                compare.load(run)
            except UserError as e:
                assert "\n" not in str(e), e

    def finish(self):
        """Goes on to the end, whose bits are those of an undisturbed run."""
        assert self.go_on()
        assert len(self.runs()) == (len(SEEDS) if self.sweeps else 1)
        for run in self.runs():
            seed = json.loads((run / "config.json").read_text())["seed"]
            assert attacked.end(run) == self.whole(seed), f"other numbers in {run}"
            left = [p for p in run.rglob("*") if p.suffix in (".partial", ".new")]
            assert not left, left

    def whole(self, seed):
        key = self.method, self.store, self.rounds, seed
        if key not in self.wholes:
            path = self.folder / "-".join(map(str, key))
            attacked.run(self.config(self.rounds, seed), path)
            self.wholes[key] = attacked.end(path)
            shutil.rmtree(path)
        return self.wholes[key]

    def live(self):
        for _ in range(self.rng.randint(2, STEPS)):
            step = self.rng.choices(
                [self.kill, self.damage, self.extend, self.compare, self.finish],
                [4, 3, 1, 1, 1],
            )[0]
            self.steps.append(step.__name__)
            if self.path.exists() or step in (self.kill, self.finish):
                step()
        self.steps.append("end")
        self.finish()


def main(folder: Path, seconds: float, seed: int):
    shim, wholes, failed = killing.Shim(False), {}, {}
    attacked.quick()
    attacked.data(folder / "toy.npz")
    counts, lives, until = collections.Counter(), 0, time.monotonic() + seconds
    while not lives or time.monotonic() < until:
        life = Life(folder, seed + lives, shim, wholes)
        try:
            life.live()
            shutil.rmtree(life.path)
        except Exception as e:  # any error is a finding
            why = traceback.format_exception(e)[-1].strip()
            steps = ", ".join(life.steps)
            failed[seed + lives] = f"{life.method} {life.store}: {steps}: {why}"
        counts.update(step.split()[0] for step in life.steps)
        lives += 1
    found = {"lives": lives, "steps": dict(counts), "failed": failed}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    from rich.console import Console

    import jaxproto
    from jaxproto.errors import UserError
    from jaxproto.reporting import compare
    from jaxproto.sweeps import SweepOptions
    from support import attacked, killing

    QUIET = Console(quiet=True)
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
