"""Groups of runs that differ in the seed alone, and differences of settings."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxproto.config.fields import fields_where
from jaxproto.config.optimizers import needs_rounds
from jaxproto.errors import UserError
from jaxproto.storage import records
from jaxproto.storage.provenance import CODE
from jaxproto.storage.run_folder import RunFolder

CLIENTS = "clients"  # key of a group's config: SIMULATED or ON_NODES
SIMULATED, ON_NODES = "simulated", "nodes"


class SeedGroup(NamedTuple):
    """Runs that differ in the seed alone."""

    config: dict  # flat fields that are compared, CLIENTS and CODE
    runs: tuple[RunFolder, ...]
    length: str = ""  # such as ", 20 rounds", if runs on the data set differ in it
    label: str = ""  # of its row in a table
    label_fields: tuple[str, ...] = ()  # whose values the label shows

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.config["method.name"]

    @property
    def finished(self) -> tuple[RunFolder, ...]:
        """The finished runs."""
        return tuple(r for r in self.runs if r.finished)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the finished runs, sorted."""
        return tuple(sorted(r.config["seed"] for r in self.finished))

    @property
    def dataset(self) -> str:
        """Name of the data set without its source."""
        return dataset(self.config["data.name"])

    @property
    def block(self) -> str:
        """Name of the columns: the data set, and its length if lengths differ."""
        return self.dataset + self.length


def group_by_seed(runs: Iterable[RunFolder]) -> tuple[SeedGroup, ...]:
    """Returns runs grouped by settings, in the order of the first run of each group.

    Raises:
      UserError: two runs are the same, seed included.
    """
    by_setting: dict[str, list[RunFolder]] = {}
    for run in runs:
        key = settings_key(run)
        for other in by_setting.setdefault(key, []):
            if other.config["seed"] == run.config["seed"]:
                raise UserError(
                    f"{other.path} and {run.path} are the same run: every setting and "
                    f"seed {run.config['seed']} agree. Give one of them."
                )
        by_setting[key].append(run)
    return tuple(SeedGroup(_setting(g[0]), tuple(g)) for g in by_setting.values())


def with_lengths(groups: Iterable[SeedGroup]) -> list[SeedGroup]:
    """Returns the groups with their length, where groups on a data set differ in it."""
    groups = list(groups)
    lengths = {(g.dataset, g.config["rounds"]) for g in groups}
    num_lengths = Counter(data for data, _ in lengths)
    return [
        g._replace(
            length=f", {g.config['rounds']} rounds" * (num_lengths[g.dataset] > 1)
        )
        for g in groups
    ]


def until(run: RunFolder, rounds: int) -> RunFolder:
    """Returns a longer run as it was after fewer rounds.

    Raises:
      UserError: it was not evaluated then, or its rounds depend on their number.
    """
    if not run.finished or run.config["rounds"] <= rounds:
        return run
    kept = [record for record in run.evaluations() if record["round"] <= rounds]
    reached = min(rounds, run.round)  # of a run that stopped early
    if not kept or kept[-1]["round"] != reached:
        raise UserError(
            f"{run.path} was not evaluated after {rounds} rounds: give --rounds a "
            f"multiple of its eval_every, {run.config['eval_every']}."
        )
    method, schedule = run.config["method.name"], run.config["optimizer.schedule"]
    if needs_rounds(method, schedule):
        raise UserError(
            f"{run.path} is no beginning of a shorter run: its rounds depend on "
            f"their number, {run.config['rounds']}. Leave it or --rounds out."
        )
    of_all = ("metrics", "collapsed", "warnings", "privacy")
    rest = {k: v for k, v in run.results.items() if k not in of_all}
    rest |= {k: v for k, v in kept[-1].items() if k == "privacy"}
    if sent := kept[-1].get("bytes_total"):
        rest["bytes_per_round"] = {way: n and n / reached for way, n in sent.items()}
    short = dataclasses.replace(
        run,
        config=run.config | {"rounds": rounds},
        summary=rest | {"rounds": reached, "rules": records.rule_summary(kept)},
    )
    vars(short)["records"] = kept  # the cached property
    return short


def settings_key(run: RunFolder, without: str | None = None) -> str:
    """Returns a text that is the same for runs that differ in the seed alone.

    Args:
      run: the run.
      without: a field in which they may differ, too.
    """
    setting = _setting(run).items()  # a float may be saved as 1
    numbers = {k: float(v) if type(v) is int else v for k, v in setting}
    numbers.pop(without, None)
    return json.dumps(numbers, sort_keys=True)


def _setting(run: RunFolder) -> dict:
    ignored = fields_where(compared=False)
    kept = {k: v for k, v in run.config.items() if k not in ignored}
    clients = ON_NODES if run.on_nodes else SIMULATED
    return kept | {CLIENTS: clients, CODE: code_version(run)}


def code_version(run: RunFolder) -> str:
    """Returns a digest of the code of the user in all starts of a run; "" if none."""
    sections = (entry["sections"].get(CODE) for entry in run.provenance)
    codes = dict.fromkeys(json.dumps(c, sort_keys=True) for c in sections if c)
    return hashlib.sha256("".join(codes).encode()).hexdigest()[:7] if codes else ""


def dataset(name: str) -> str:
    """Returns a name without source: `mnist` of `tfds:mnist` or `npz:any/mnist.npz`."""
    prefix, colon, rest = name.partition(":")
    if not colon:
        return prefix
    return rest.partition(":")[0] if prefix == "tfds" else Path(rest).stem


def fields_apart(names: Sequence, settings: Sequence[Mapping]) -> list[list[str]]:
    """Returns for each setting the fields in which settings of its name differ."""
    pairs = [*zip(names, settings, strict=True)]
    return [differing_fields([s for n, s in pairs if n == name]) for name in names]


def with_details(name: str, details: Iterable[str]) -> str:
    """Returns a name with its details in brackets if there are any."""
    listed = ", ".join(details)
    return f"{name} ({listed})" if listed else name


def by_value(pairs: Iterable[tuple[object, str]]) -> str:
    """Returns values with the names that have them: `1 in a, b; 2 in c`."""
    names_of: dict[str, dict[str, None]] = {}
    for value, name in pairs:
        names_of.setdefault(str(value), {})[name] = None
    texts = (f"{value} in {', '.join(names)}" for value, names in names_of.items())
    return "; ".join(texts)


def differing_fields(settings: Sequence[Mapping]) -> list[str]:
    """Returns the fields in which settings differ, sorted."""
    keys = sorted({k for s in settings for k in s})
    absent = object()
    return [
        k
        for k in keys
        if any(s.get(k, absent) != settings[0].get(k, absent) for s in settings)
    ]
