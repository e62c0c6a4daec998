"""Runs from their work directories; which differ in nothing but the seed."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxproto.config.fields import where
from jaxproto.errors import UserError
from jaxproto.storage import jsonfile
from jaxproto.storage.status import status_of
from jaxproto.storage.workdir import NODES, read_config

LEFT = ("config.json", "summary.json", "metrics.jsonl")  # by which a run is known

CLIENTS = "clients"  # of a group: where they were, beside the fields of the runs
SIMULATED, ON_NODES = "simulated", "nodes"


class Run(NamedTuple):
    """One work directory."""

    path: Path
    config: dict  # flat, fields that did not exist then at their default
    summary: dict | None  # None while it is not finished
    clients: str = SIMULATED  # or ON_NODES

    @property
    def finished(self) -> bool:
        """Whether it came to its last round, or was stopped early."""
        return status_of(self.summary).ok

    @property
    def results(self) -> dict:
        """The summary.

        Raises:
          UserError: it is not finished.
        """
        if self.summary is None or not self.finished:
            raise UserError(f"{self.path} is not finished; leave it out or run it on.")
        return self.summary


class Group(NamedTuple):
    """Runs that differ in nothing but the seed."""

    config: dict  # flat, without what is ignored, with CLIENTS
    runs: tuple[Run, ...]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.config["method.name"]

    @property
    def finished(self) -> tuple[Run, ...]:
        """Those that have numbers."""
        return tuple(r for r in self.runs if r.finished)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the finished runs, sorted."""
        return tuple(sorted(r.config["seed"] for r in self.finished))

    @property
    def rules(self) -> set[str]:
        """Those that one of the finished runs has."""
        return {rule for r in self.finished for rule in r.results["rules"]}

    @property
    def dataset(self) -> str:
        """Name of the data set, without where it was read from."""
        return dataset(self.config["data.name"])


def load(workdir: str | Path) -> Run:
    """Reads `config.json`, and `summary.json` if it is there.

    Raises:
      UserError: the folder is not that of a run, or a file in it is damaged.
    """
    path = Path(workdir)
    given = _read(path / "config.json", read_config)
    if given is None:
        raise UserError(
            f"{path} holds no config.json: give work directories of runs, such as "
            "runs/protonorm-digits-seed0."
        )
    clients = ON_NODES if (path / NODES).exists() else SIMULATED
    summary = _read(path / "summary.json", jsonfile.read_summary)
    return Run(path, given, summary, clients)


def is_run(workdir: str | Path) -> bool:
    """Whether a run has left something there."""
    return any((Path(workdir) / name).exists() for name in LEFT)


def _read(path: Path, read: Callable[[Path], dict | None]) -> dict | None:
    """What is in a file of a run; None if there is no file."""
    try:
        return read(path)
    except jsonfile.Damaged as e:
        raise UserError(f"{path} cannot be read ({e}). Leave this run out.") from e


def groups(runs: Iterable[Run]) -> tuple[Group, ...]:
    """Runs of equal settings together, in the order of the first of each.

    Raises:
      UserError: two of them are the same, seed included.
    """
    found: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps(_setting(run), sort_keys=True)
        for other in found.setdefault(key, []):
            if other.config["seed"] == run.config["seed"]:
                raise UserError(
                    f"{other.path} and {run.path} are the same run: every setting and "
                    f"seed {run.config['seed']} agree. Give one of them."
                )
        found[key].append(run)
    return tuple(Group(_setting(g[0]), tuple(g)) for g in found.values())


def _setting(run: Run) -> dict:
    ignored = where(compared=False)
    kept = {k: v for k, v in run.config.items() if k not in ignored}
    return kept | {CLIENTS: run.clients}


def dataset(name: str) -> str:
    """`fashion_mnist` of `tfds:fashion_mnist:3.0.1` or `npz:any/fashion_mnist.npz`."""
    prefix, colon, rest = name.partition(":")
    if not colon:
        return prefix
    return rest.partition(":")[0] if prefix == "tfds" else Path(rest).stem


def differing(settings: Sequence[Mapping]) -> list[str]:
    """Fields in which these settings are not all alike, sorted."""
    keys = sorted({k for s in settings for k in s})
    absent = object()
    return [
        k
        for k in keys
        if any(s.get(k, absent) != settings[0].get(k, absent) for s in settings)
    ]
