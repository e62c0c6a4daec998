"""A series of runs, one after the other; finished ones are left as they are.

What a finished run is worth keeping for goes into the repository: `records/NAME` beside
the series holds its config.json, partition.csv, metrics.jsonl and summary.json, which
comparison and pictures read like a work directory.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
Run = tuple[str, str, Sequence[str]]  # name, configuration, flags
USAGE = "usage: python -m results.SERIES.run OUT DATA_DIR [WORD...]"


def make(runs: Iterable[Run], argv: Sequence[str], records: Path | None = None):
    """Makes the runs and exits with the names of those that failed.

    Args:
      runs: interrupted ones resume.
      argv: OUT DATA_DIR [WORD...]: the folder that receives a work directory per run,
        TFDS's folder, and words of which a run's name must hold one, if there are any.
      records: receives what is kept of each finished run; those recorded already are
        not made again.
    """
    if len(argv) < 2:
        sys.exit(USAGE)
    out, data_dir, *words = argv
    failed = []
    for name, config, flags in runs:
        if words and not any(word in name for word in words):
            continue
        record = records and records / name
        if record and (record / "summary.json").exists():
            sys.stdout.write(f"{name} is recorded: delete {record} to make it again\n")
            continue
        work = Path(out, name)
        command = [sys.executable, "main.py", f"--config=configs/{config}"]
        command += [f"--config.data.data_dir={data_dir}", f"--workdir={work}"]
        if subprocess.run([*command, *flags], cwd=ROOT, check=False).returncode:
            failed.append(name)
        elif record:
            keep(work, record)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def keep(work: Path, record: Path):
    """Copies what says something about a finished run, without the data's folder."""
    config = json.loads((work / "config.json").read_text())
    name = config["data"]["name"]
    kind, colon, rest = name.partition(":")
    short = f"{kind}{colon}{Path(rest).name}"
    short = short if kind in ("npz", "csv", "folder") else name
    config["data"] |= {"name": short, "data_dir": ""}
    record.mkdir(parents=True, exist_ok=True)
    (record / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    # The summary last: it says finished
    for file in ("partition.csv", "metrics.jsonl", "summary.json"):
        if (work / file).exists():
            (record / file).write_text((work / file).read_text())
    summary = json.loads((record / "summary.json").read_text())
    if "dataset" in summary:
        summary["dataset"] = short
        text = json.dumps(summary, indent=2) + "\n"
        (record / "summary.json").write_text(text)
