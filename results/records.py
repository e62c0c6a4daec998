"""Records of a series of runs: `records.tar.xz` and the table `runs.csv`.

The archive has a folder for each run, with those of FILES that the run has. `jaxproto`
reads `results/SERIES/records` from it, and `tar xf` unpacks it. Equal runs give equal
files, whatever the order in which they were added.
"""

import csv
import io
import tarfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxproto.config.fields import fields_where
from jaxproto.errors import UserError, first_few
from jaxproto.io import atomic
from jaxproto.storage.packed_runs import archive_of, unpacked
from jaxproto.storage.run_folder import RunFolder, run_folders

RESULTS = Path(__file__).parent
FOLDER, TABLE = "records", "runs.csv"  # of a series
FILES = (
    "config.json",
    "provenance.json",
    "partition.csv",
    "metrics.jsonl",
    "clients.npz",
    "summary.json",
)
COLUMNS = (
    "name",
    "seed",
    "status",
    "rounds",
    "reading",
    "best",
    "final",
    "kB per round",
    "settings",
    "commit",
)
Contents = dict[str, dict[str, bytes]]  # run -> file -> content


def all_series() -> list[Path]:
    """Returns the folder of records of every series that has some."""
    archives = sorted(RESULTS.glob(f"*/{archive_of(Path(FOLDER))}"))
    return [path.parent / FOLDER for path in archives]


def add(records: Path, folders: Sequence[Path]) -> list[str]:
    """Adds runs to a series; returns the names of those that were not there.

    Args:
      folders: folders of FILES, as `series.keep` writes them.

    Raises:
      UserError: a folder is no record, or the series has another run of that name.
    """
    there, new = contents(records), {run.name: _read(run) for run in folders}
    if differ := [name for name in new if there.get(name, new[name]) != new[name]]:
        raise UserError(
            f"{records} has another run {differ[0]!r}: remove it first, with python -m "
            f"results.series remove {records.parent.name} {differ[0]}."
        )
    if added := [name for name in new if name not in there]:
        _write(records, there | new)
    return added


def remove(records: Path, gone: Sequence[str]):
    """Removes runs from a series, so that they can be made again.

    Raises:
      UserError: the series has no such run.
    """
    there = contents(records)
    if unknown := [name for name in gone if name not in there]:
        raise UserError(f"{records} has no run {first_few(unknown)}.")
    _write(records, {name: files for name, files in there.items() if name not in gone})


def contents(records: Path) -> Contents:
    """Returns all files of a series; none where it has no archive."""
    folder, found = unpacked(records), Contents()
    for path in folder.glob("*/*") if folder else ():
        found.setdefault(path.parent.name, {})[path.name] = path.read_bytes()
    return found


def _read(run: Path) -> dict[str, bytes]:
    """Reads the files of a record.

    Raises:
      UserError: the run has not ended, or the folder is a work directory.
    """
    found = RunFolder.read(run)
    if found.config["data.data_dir"] or not found.status().ended:
        raise UserError(
            f"{run} is no record of an ended run: give folders that a series has "
            "recorded, with an empty data.data_dir."
        )
    there = (run / name for name in FILES)
    return {path.name: path.read_bytes() for path in there if path.exists()}


def _write(records: Path, runs: Contents):
    """Writes archive and table of a series: sorted, without times and owners."""
    files = {
        f"{records.name}/{name}/{file}": content
        for name, run in runs.items()
        for file, content in run.items()
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for path, content in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    records.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(archive_of(records), packed.getvalue())
    atomic.write(records.parent / TABLE, table(records).encode())


def table(records: Path) -> str:
    """Returns the table of the runs of a series.

    `best` and `final` are accuracies in %, pooled / mean over clients, by prediction
    rule. `settings` has the fields in which a run differs from most runs of the series;
    those of the method are compared with runs of that method.
    """
    runs = [RunFolder.read(path) for path in run_folders(records)]
    usual = _usual_settings(runs)
    text = io.StringIO()
    rows = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    rows.writeheader()
    for run in runs:
        summary = run.summary or {}
        given = {k: summary[k] for k in COLUMNS if k in summary}
        shown = {k: accuracies(summary["rules"], k) for k in ("best", "final")}
        unlike = _settings(run).items() - usual.items()
        settings = " ".join(sorted(f"{field}={v}" for (_, field), v in unlike))
        sent = sum(x or 0 for x in summary["bytes_per_round"].values()) / 1000
        own = {"name": run.path.name, "seed": run.config["seed"], "settings": settings}
        rows.writerow(own | given | shown | {"kB per round": f"{sent:.1f}"})
    return text.getvalue()


def accuracies(rules: Mapping, statistic: str) -> str:
    """Returns the accuracies of all rules in %: pooled / mean over clients."""

    def percent(kinds: Mapping, average: str) -> str:
        share = kinds[average][statistic]
        return "-" if share is None else f"{100 * share:.2f}"

    return ", ".join(
        f"{rule} {percent(kinds, 'pooled')} / {percent(kinds, 'client_mean')}"
        for rule, kinds in rules.items()
    )


def _settings(run: RunFolder) -> dict[tuple[str, str], str]:
    """Returns {(method, field): value}; "" is the method of fields of all methods."""
    ignored = fields_where(compared=False) | {"name", "seed", "rounds"}
    method = {"method": run.config["method.name"]}
    return {
        (method.get(field.split(".")[0], ""), field): str(value)
        for field, value in run.config.items()
        if field not in ignored
    }


def _usual_settings(runs: Sequence[RunFolder]) -> dict[tuple[str, str], str]:
    """Returns the commonest value of every field; of equally common ones the least."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for run in runs:
        for key, value in _settings(run).items():
            found[key][value] += 1
    return {k: min(v, key=lambda value: (-v[value], value)) for k, v in found.items()}
