"""Runs that differ in nothing but the seed, and what runs differ in."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxproto.config.fields import fields_where
from jaxproto.errors import UserError
from jaxproto.storage.run_folder import RunFolder

CLIENTS = "clients"  # of a group: where they were, beside the fields of the runs
SIMULATED, ON_NODES = "simulated", "nodes"


class SeedGroup(NamedTuple):
    """Runs that differ in nothing but the seed."""

    config: dict  # flat, without what is ignored, with CLIENTS
    runs: tuple[RunFolder, ...]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.config["method.name"]

    @property
    def finished(self) -> tuple[RunFolder, ...]:
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


def group_by_seed(runs: Iterable[RunFolder]) -> tuple[SeedGroup, ...]:
    """Runs of equal settings together, in the order of the first of each.

    Raises:
      UserError: two of them are the same, seed included.
    """
    found: dict[str, list[RunFolder]] = {}
    for run in runs:
        key = json.dumps(_setting(run), sort_keys=True)
        for other in found.setdefault(key, []):
            if other.config["seed"] == run.config["seed"]:
                raise UserError(
                    f"{other.path} and {run.path} are the same run: every setting and "
                    f"seed {run.config['seed']} agree. Give one of them."
                )
        found[key].append(run)
    return tuple(SeedGroup(_setting(g[0]), tuple(g)) for g in found.values())


def _setting(run: RunFolder) -> dict:
    ignored = fields_where(compared=False)
    kept = {k: v for k, v in run.config.items() if k not in ignored}
    return kept | {CLIENTS: ON_NODES if run.on_nodes else SIMULATED}


def dataset(name: str) -> str:
    """`fashion_mnist` of `tfds:fashion_mnist:3.0.1` or `npz:any/fashion_mnist.npz`."""
    prefix, colon, rest = name.partition(":")
    if not colon:
        return prefix
    return rest.partition(":")[0] if prefix == "tfds" else Path(rest).stem


def differing_fields(settings: Sequence[Mapping]) -> list[str]:
    """Fields in which these settings are not all alike, sorted."""
    keys = sorted({k for s in settings for k in s})
    absent = object()
    return [
        k
        for k in keys
        if any(s.get(k, absent) != settings[0].get(k, absent) for s in settings)
    ]
