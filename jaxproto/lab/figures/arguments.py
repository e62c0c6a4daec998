"""Runs, clients and classes that a command names."""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jaxproto.config.fields import fields_where
from jaxproto.errors import UserError, choose_from, first_few
from jaxproto.experiment.display_names import display_name
from jaxproto.lab import leave_out
from jaxproto.lab.compare.run_groups import (
    SeedGroup,
    dataset,
    fields_apart,
    group_by_seed,
    with_details,
)
from jaxproto.storage.run_folder import RunFolder

_LONG = 32  # letters of fields in a name; with more it has the folder instead


def parse_numbers(text: str) -> list[int]:
    """Parses an argument of numbers joined by commas, such as 2,5."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as e:
        why = f"{text!r} is no list of numbers such as 2,5"
        raise argparse.ArgumentTypeError(why) from e


def select(numbers: Sequence[int] | None, num: int, what: str) -> list[int]:
    """Returns the numbers of the option `what`, or all below `num` without it.

    Raises:
      UserError: there is no such client or class, or it is given twice.
    """
    chosen = list(range(num)) if numbers is None else list(numbers)
    wrong = [i for i in chosen if not 0 <= i < num]
    if wrong:
        known = f"the run has {what} 0 to {num - 1}; choose among them"
        raise UserError(f"--{what} {first_few(wrong)}: {known}.")
    if len(set(chosen)) < len(chosen):
        raise UserError(f"--{what} names one twice; give each number once.")
    return chosen


def by_folder_name(workdirs: Sequence[Path]) -> dict[str, Path]:
    """Returns work directories by folder name, or by path if names repeat.

    Raises:
      UserError: one is given twice.
    """
    short = [path.resolve().name for path in workdirs]
    names = short if len(set(short)) == len(short) else [str(p) for p in workdirs]
    for i, path in enumerate(workdirs):
        if path.resolve() in [p.resolve() for p in workdirs[:i]]:
            raise UserError(f"{path} is given twice; give each work directory once.")
    return dict(zip(names, workdirs, strict=True))


def by_label(workdirs: Sequence[Path]) -> dict[str, Path]:
    """Returns work directories by method, as printed, and differing settings.

    Raises:
      UserError: one is given twice or is not that of a run.
    """
    runs, ignored = _read(workdirs), fields_where(compared=False) - {"seed"}
    settings = [
        {k: v for k, v in run.config.items() if k not in ignored} for run in runs
    ]
    names = labels(settings, [run.name for run in runs])
    return {name: run.path for name, run in zip(names, runs, strict=True)}


def _read(workdirs: Sequence[Path], needs: str = "") -> list[RunFolder]:
    named = {path: name for name, path in by_folder_name(workdirs).items()}
    return leave_out.read_all(named, lambda p: leave_out.read_run(p, named[p], needs))


def labels(settings: Sequence[Mapping], folders: Sequence[str]) -> list[str]:
    """Returns methods as papers print them, with the fields that distinguish them.

    Names have folders instead of fields where many differ.
    """
    names, result = [display_name(s) for s in settings], []
    apart = fields_apart(names, settings)
    for name, setting, folder, fields in zip(
        names, settings, folders, apart, strict=True
    ):
        details = [_legend_text(k, setting.get(k)) for k in fields]
        details = details if len(", ".join(details)) <= _LONG else [folder]
        result.append(with_details(name, details))
    repeated = {label for label in result if result.count(label) > 1}
    return [
        f"{name} ({folder})" if label in repeated else label
        for label, name, folder in zip(result, names, folders, strict=True)
    ]


def _legend_text(field: str, value) -> str:
    """Returns a field and its value for a legend: alpha 0.1, seed 1."""
    if field == "data.name":
        return dataset(str(value))
    return f"{field.split('.')[-1]} {tick_text(value)}"


def tick_text(value) -> str:
    """Returns a value as ticks show it: 1 for 1.0."""
    return f"{value}".removesuffix(".0") if isinstance(value, float) else f"{value}"


def rules(rule: str | None, known: Sequence[str]) -> list[str]:
    """Returns the given rule, or all rules.

    Raises:
      UserError: there is no such rule.
    """
    known = list(dict.fromkeys(known))
    return known if rule is None else [choose_from("rule", rule, known)]


def group_seeds(
    workdirs: Sequence[Path], needs: str = "evaluations"
) -> dict[str, SeedGroup]:
    """Returns groups of runs that differ in the seed alone, by the names of `labels`.

    Names have the number of seeds where the groups differ in it.

    Raises:
      UserError: a folder is not that of a run, or two runs are the same.
    """
    groups = group_by_seed(_read(workdirs, needs))
    stems = [_common_stem([r.name for r in g.runs]) for g in groups]
    if len(set(stems)) < len(stems):
        stems = [g.runs[0].name for g in groups]
    names = labels([g.config for g in groups], stems)
    if len({len(g.runs) for g in groups}) > 1:
        seeds = [f"{n} seed{'s' * (n > 1)}" for n in (len(g.runs) for g in groups)]
        names = [f"{name} ({s})" for name, s in zip(names, seeds, strict=True)]
    return dict(zip(names, groups, strict=True))


def seeds_note(groups: Iterable[SeedGroup]) -> str:
    """Returns a note on means over seeds; "" where every run is alone."""
    sizes = {len(g.runs) for g in groups}
    over = f"{sizes.pop()} seeds" if len(sizes) == 1 and sizes != {1} else "seeds"
    return "" if sizes == {1} else f"mean over {over}, least to largest"


def _common_stem(names: Sequence[str]) -> str:
    """Returns `protonorm` of protonorm-seed0 and protonorm-seed1."""
    stems = {re.sub(r"[-_]?(seed)?\d+$", "", name) for name in names}
    return stems.pop() if len(names) > 1 and len(stems) == 1 else names[0]
