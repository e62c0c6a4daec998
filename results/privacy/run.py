"""Accuracy against epsilon: runs, the choice of clips, a table and a picture.

    python -m results.privacy.run clips OUT
    python -m results.privacy.run runs OUT SET UNIT [DATA_DIR]
    python -m results.privacy.run why OUT

SET is digits, digits_5 (five rounds) or fashion_mnist, DATA_DIR its folder of TFDS,
UNIT off, client or example; OUT receives the runs. `clips` writes clips.csv, from runs
on the digits with a seed that `runs` does not use; `runs` takes the best clips and
writes SET.csv; `why` writes why.csv, which shows why some private runs of FedProto and
FedAvg are better. `drawing.py` prints the tables and draws the picture.
"""

import csv
import itertools
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from jaxproto import config
from jaxproto.experiment import traced
from jaxproto.storage import records, workdir
from jaxproto.training import runner

HERE = Path(__file__).parent
METHODS = {  # method -> prediction rule of the released model
    "fedproto": "global",
    "protonorm": "global",
    "tinyproto": "global",
    "fedavg": "received",
}
UNITS = ("off", "client", "example")
CHOICE = 10  # seed that clips are chosen by
CLIPS = {"client": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), "example": (0.3, 1.0, 3.0)}
RUN = ("method", "unit", "clip", "noise", "seed")
DIVERGED = "diverged"
FIELDS = (*RUN, "epsilon", "delta", "rule", "accuracy")


class Setting(NamedTuple):
    """Configuration that the runs of a table share."""

    data: str
    fields: dict
    noises: Sequence[float]


DIGITS = {"model.group": "mlp", "data.clients": 20}
FASHION = {
    "model.group": "mlp",
    "model.feat_dim": 64,
    "data.clients": 10,
    "local.batch_size": 64,
    "optimizer.learning_rate": 0.05,
    "rounds": 10,
    "data.train_share": 0.25,
}
SETS = {  # equal epsilons: half the noise for a quarter of the rounds
    "digits": Setting("digits", {**DIGITS, "rounds": 20}, (0.5, 4.0, 32.0)),
    "digits_5": Setting("digits", {**DIGITS, "rounds": 5}, (0.25, 2.0, 16.0)),
    "fashion_mnist": Setting("fashion_mnist", FASHION, (0.35, 2.8, 22.6)),
}
SEEDS = {  # set, unit -> seeds; else those of `...`
    ...: (0, 1, 2),
    ("digits", "example"): (0,),
    ("fashion_mnist", "off"): (0,),
    ("fashion_mnist", "client"): (0,),
    ("fashion_mnist", "example"): (0,),
}
CHOSEN = {  # unit -> set and noises that clips are chosen by, for all sets
    "client": ("digits", (0.5, 2.0)),
    "example": ("digits_5", (1.0,)),
}


class Case(NamedTuple):
    """Runs that share their programs."""

    out: Path
    set: str
    data_dir: str
    method: str
    unit: str
    more: dict = {}  # noqa: RUF012  fields that differ from the setting

    def configured(self, clip: float, noise: float, seed: int):
        """Returns the configuration of a run."""
        c = config.experiment(self.method, SETS[self.set].data)
        fields = {**SETS[self.set].fields, **self.more}
        c.update_from_flattened_dict(fields)
        c.data.data_dir = self.data_dir
        c.eval_every = c.checkpoint_every = c.rounds
        c.seed, c.privacy.unit = seed, self.unit
        if self.unit != "off":
            c.privacy.clip, c.privacy.noise = clip, noise
        return c

    def rows(self, cells) -> list[dict]:
        """Trains runs with these clips, noises and seeds; returns a row per rule."""
        ready, table = None, []
        for cell in cells:
            name = "_".join(map(str, (self.set, self.method, self.unit, *cell)))
            c = self.configured(*cell)
            record, ready = trained(c, self.out / name, ready)
            row = dict(zip(RUN, (self.method, self.unit, *cell), strict=True))
            if record is None:
                table.append(
                    {**row, "rule": METHODS[self.method], "accuracy": DIVERGED}
                )
                continue
            spent = record.get("privacy", {})
            row |= {key: spent.get(key, "") for key in ("epsilon", "delta")}
            for rule, averages in record["rules"].items():
                table.append({**row, "rule": rule, "accuracy": averages["pooled"]})
        return table


def trained(c, path: Path, ready):
    """Trains a run; returns its last record, None if it diverged, and its programs."""
    config.check(c)
    quiet = Console(quiet=True)
    if (path / "metrics.jsonl").exists():  # of a call that was interrupted
        saved = records.read(path / "metrics.jsonl")
        if saved and saved[-1]["round"] == c.rounds:
            return saved[-1], ready
    with workdir.lock_workdir(path) as lock:
        start = runner.Start(c, path, quiet, grace=0.0, lock=lock)
        ready = ready or runner.prepare(start, cache=False)
        ready = ready._replace(exp=ready.exp._replace(floats=traced.traced_floats(c)))
        if runner.train(start, ready)["status"] == "diverged":
            return None, ready
    return records.read(path / "metrics.jsonl")[-1], ready


def read(path: Path) -> list[dict]:
    """Returns the rows of a table; none if there is no file."""
    return list(csv.DictReader(path.open())) if path.exists() else []


def write(path: Path, rows: list[dict], keys: Sequence[str], head: Sequence[str]):
    """Writes rows to a table, in place of those with equal values of `keys`."""
    new = {tuple(str(row[k]) for k in keys) for row in rows}
    kept = [r for r in read(path) if tuple(r[k] for k in keys) not in new]
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, head, lineterminator="\n")
        table.writeheader()
        table.writerows([*kept, *rows])


def seeds(set: str, unit: str) -> Sequence[int]:
    """Returns the seeds of the runs of a set."""
    return SEEDS.get((set, unit), SEEDS[...])


def clips(out: str):
    """Runs every clip, with the seed that is for this choice alone."""
    for unit, method in itertools.product(CHOSEN, METHODS):
        set, noises = CHOSEN[unit]
        case = Case(Path(out), set, "", method, unit)
        rows = case.rows(itertools.product(CLIPS[unit], noises, (CHOICE,)))
        write(HERE / "clips.csv", rows, ("method", "unit"), FIELDS)


def best(method: str, unit: str) -> float:
    """Returns the clip with the highest mean accuracy over the noises of `clips`."""
    found: dict[float, list[float]] = {}
    for row in read(HERE / "clips.csv"):
        if (row["method"], row["unit"], row["rule"]) == (method, unit, METHODS[method]):
            value = 0.0 if row["accuracy"] == DIVERGED else float(row["accuracy"])
            found.setdefault(float(row["clip"]), []).append(value)
    return max(found, key=lambda clip: statistics.fmean(found[clip]))


def runs(out: str, set: str, unit: str, data_dir: str = ""):
    """Makes the runs of a table."""
    for method in METHODS:
        case = Case(Path(out), set, data_dir, method, unit)
        settings: Iterable[tuple] = [("", "")]  # clip, noise
        if unit != "off":
            settings = itertools.product((best(method, unit),), SETS[set].noises)
        cells = itertools.product(settings, seeds(set, unit))
        rows = case.rows((*setting, seed) for setting, seed in cells)
        write(HERE / f"{set}.csv", rows, ("method", "unit"), FIELDS)


SILENT = 1e-6  # noise too small to matter
WHY = {  # case -> method, unit, clip, noise, fields
    "without privacy": ("fedproto", "off", "", "", {}),
    "without privacy, mean over examples": (
        "fedproto",
        "off",
        "",
        "",
        {"method.aggregate": "mean_over_examples"},
    ),
    "unit example, nothing clipped, no noise": (
        "fedproto",
        "example",
        1e3,
        SILENT,
        {},
    ),
    "unit example, clip 1, no noise": ("fedproto", "example", 1.0, SILENT, {}),
    "FedAvg without privacy": ("fedavg", "off", "", "", {}),
    "FedAvg, unit client, nothing clipped, no noise": (
        "fedavg",
        "client",
        1e3,
        SILENT,
        {},
    ),
    "FedAvg, unit client, clip 1, no noise": ("fedavg", "client", 1.0, SILENT, {}),
}


def why(out: str):
    """Runs FedProto and FedAvg on the digits, one difference of WHY at a time."""
    for set, (name, given) in itertools.product(("digits_5", "digits"), WHY.items()):
        method, unit, clip, noise, more = given
        case = Case(Path(out) / name, set, "", method, unit, more)
        rows = case.rows(itertools.product((clip,), (noise,), SEEDS[...]))
        rows = [{"set": set, "case": name, **row} for row in rows]
        write(HERE / "why.csv", rows, ("set", "case"), ("set", "case", *FIELDS))


COMMANDS = {f.__name__: f for f in (clips, runs, why)}


def main(argv: list[str]):
    """Runs a command; finished runs in OUT are not made again."""
    least = {"clips": 1, "runs": 3, "why": 1}
    if not argv or argv[0] not in COMMANDS or len(argv) - 1 < least[argv[0]]:
        sys.exit(__doc__)
    COMMANDS[argv[0]](*argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
