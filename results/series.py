"""A series of runs, one after the other; finished ones are left as they are.

    python -m results.series add SERIES RECORD...      # folders, made by another clone
    python -m results.series remove SERIES NAME...     # to make these runs again

The results of an ended run go into the repository: `records.tar.xz` beside the series
has its config.json, provenance.json, partition.csv, metrics.jsonl and summary.json
(`results/records.py`), which comparison and pictures read like a work directory. The
summary also has the reading and the commit that made the run. Where its records list
the clients, clients.npz has the lists: `round`, `id` and `test_examples` once, and a
row for each evaluation of `correct_RULE` and the bytes of clients; metrics.jsonl leaves
out what follows from it.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.errors import UserError
from jaxproto.storage import records as files
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from results import records as recorded

ROOT = Path(__file__).parents[1]
Run = tuple[str, str, Sequence[str]]  # name, configuration, flags
USAGE = "usage: python -m results.SERIES.run OUT DATA_DIR [WORD...]"


def make(runs: Iterable[Run], argv: Sequence[str], records: Path | None = None):
    """Makes the runs and exits with the names of those that failed.

    Args:
      runs: interrupted ones resume.
      argv: OUT DATA_DIR [WORD...]: the folder that receives a work directory per run,
        TFDS's folder, and words; with words, only runs whose names contain one.
      records: `records` of a series, which receives what is kept of each ended run;
        those recorded already are not made again.
    """
    if len(argv) < 2:
        sys.exit(USAGE)
    out, data_dir, *words = argv
    failed, there = [], recorded.contents(records) if records else {}
    for name, config, flags in runs:
        if words and not any(word in name for word in words):
            continue
        if records and name in there:
            remove = f"python -m results.series remove {records.parent.name} {name}"
            sys.stdout.write(f"{name} is recorded; to make it again: {remove}\n")
            continue
        if not made((name, config, flags), Path(out, name), data_dir, records):
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def made(run: Run, work: Path, data_dir: str, records: Path | None, **process) -> bool:
    """Makes a run or goes on with it, and records it; returns whether it has ended.

    Args:
      process: arguments of `call`.
    """
    name, config, flags = run
    source = {"reading": reading(config), "commit": commits(work)}
    command = [sys.executable, "main.py", f"--config=configs/{config}"]
    command += [f"--config.data.data_dir={data_dir}", f"--workdir={work}", *flags]
    failed = call(command, **process)
    if failed and RunFolder.at(work).status() is not Status.DIVERGED:
        return False
    if records:
        with tempfile.TemporaryDirectory() as folder:
            keep(work, Path(folder, name), source)
            recorded.add(records, [Path(folder, name)])
    return True


def call(command: Sequence[str], seconds: float | None = None, **options) -> int:
    """Returns the exit code of a command, which is terminated after `seconds`."""
    with subprocess.Popen(command, cwd=ROOT, **options) as child:
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.terminate()
            return child.wait()


def reading(config: str) -> str:
    """Returns the reading that the name of a configuration ends with."""
    last = re.split("[,:=]", config)[-1]
    return last if last in ("paper", "code") else "default"


def commits(work: Path) -> str:
    """Notes the commit that a run starts or resumes at; returns all of the run."""
    note = work.with_name(f"{work.name}.commits")
    before = note.read_text().split() if note.exists() else []
    hashes = " ".join(dict.fromkeys([*before, commit()]))
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(hashes)
    return hashes


def commit() -> str:
    """Returns the hash of the code that is here, with -dirty where it was edited.

    Records are not code.
    """

    def git(*words: str) -> subprocess.CompletedProcess:
        command = ["git", *words]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )

    records = (f":!results/*/{name}" for name in ("records.tar.xz", recorded.TABLE))
    edited = git("diff", "--quiet", "HEAD", "--", ".", *records)
    head = git("rev-parse", "HEAD").stdout.strip() or "unknown"
    return head + "-dirty" * (edited.returncode == 1)


def keep(work: Path, record: Path, source: Mapping[str, str]):
    """Copies the results of an ended run, without the path of its data.

    Args:
      source: entries for the summary: `reading` and `commit`.
    """
    config = json.loads((work / "config.json").read_text())
    name = config["data"]["name"]
    kind, colon, rest = name.partition(":")
    short = f"{kind}{colon}{Path(rest).name}"
    short = short if kind in ("npz", "csv", "folder") else name
    config["data"] |= {"name": short, "data_dir": ""}
    record.mkdir(parents=True, exist_ok=True)
    files.write_json(record / "config.json", config)
    for file in ("provenance.json", "partition.csv", "metrics.jsonl"):
        if (work / file).exists():
            (record / file).write_text((work / file).read_text())
    lines = files.read(work / "metrics.jsonl")
    if lines and all("by_client" in line for line in lines):
        files.write_columns(record / "clients.npz", stacked(lines))
        text = "".join(json.dumps(shortened(line)) + "\n" for line in lines)
        (record / "metrics.jsonl").write_text(text)
    text = (work / "summary.json").read_text().replace(str(work), work.name)
    summary = json.loads(text) | source
    if "dataset" in summary:
        summary["dataset"] = short
    files.write_json(record / "summary.json", summary)  # last: marks completion


def stacked(lines: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Returns the columns of a run's clients, [evaluations, clients]."""
    rows = [
        line["by_client"]
        | {f"bytes_{direction}": k for direction, k in line["bytes_by_client"].items()}
        for line in lines
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    once = {name: columns.pop(name)[0] for name in ("id", "test_examples")}
    return {"round": np.array([line["round"] for line in lines]), **once, **columns}


def shortened(line: Mapping) -> dict:
    """Returns the record of an evaluation without the numbers of single clients."""
    rules = {
        rule: {k: averages[k] for k in files.AVERAGES}
        for rule, averages in line["rules"].items()
    }
    rest = {k: v for k, v in line.items() if k not in ("by_client", "bytes_by_client")}
    return rest | {"rules": rules}


def main(argv: Sequence[str]):
    """Adds records of runs to a series, or removes some."""
    parser = argparse.ArgumentParser(prog="python -m results.series")
    parser.add_argument("command", choices=("add", "remove"))
    parser.add_argument("series", help="folder in results/")
    parser.add_argument("runs", nargs="+", help="folders of records to add, or names")
    args = parser.parse_args(argv)
    records = recorded.RESULTS / args.series / recorded.FOLDER
    try:
        if args.command == "remove":
            recorded.remove(records, args.runs)
        else:
            added = recorded.add(records, [Path(run) for run in args.runs])
            sys.stdout.write(f"added {len(added)} of {len(args.runs)} runs\n")
    except UserError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main(sys.argv[1:])
