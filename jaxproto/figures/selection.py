"""Which runs, clients and classes a command names."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from jaxproto.compare.runs import Group, Run, groups, load
from jaxproto.errors import UserError, some
from jaxproto.storage import records as metrics


def numbers(text: str) -> list[int]:
    """The type of an argument: numbers joined by commas, such as 2,5."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as e:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of numbers such as 2,5"
        ) from e


def chosen(asked: Sequence[int] | None, num: int, what: str) -> list[int]:
    """Those asked for, or all of `num`.

    Args:
      what: the option, clients or classes.

    Raises:
      UserError: there is no such client or class, or it is asked for twice.
    """
    found = list(range(num)) if asked is None else list(asked)
    wrong = [i for i in found if not 0 <= i < num]
    if wrong:
        raise UserError(
            f"--{what} {some(wrong)}: the run has {what} 0 to {num - 1}; choose among "
            "them."
        )
    if len(set(found)) < len(found):
        raise UserError(f"--{what} names one twice; give each number once.")
    return found


def named(workdirs: Sequence[Path]) -> dict[str, Path]:
    """Work directories by the names of their folders, by their paths if those repeat.

    Raises:
      UserError: one is given twice.
    """
    short = [path.resolve().name for path in workdirs]
    names = short if len(set(short)) == len(short) else [str(p) for p in workdirs]
    for i, path in enumerate(workdirs):
        if path.resolve() in [p.resolve() for p in workdirs[:i]]:
            raise UserError(f"{path} is given twice; give each work directory once.")
    return dict(zip(names, workdirs, strict=True))


def records(workdir: Path) -> list[dict]:
    """The records of a run.

    Raises:
      UserError: there are none in the folder.
    """
    if not (workdir / "metrics.jsonl").is_file():
        raise UserError(
            f"{workdir} holds no metrics.jsonl: give work directories of runs, such as "
            "runs/protonorm-digits-seed0."
        )
    return metrics.read(workdir / "metrics.jsonl")


def over_seeds(workdirs: Sequence[Path]) -> dict[str, Group]:
    """Runs that differ in nothing but the seed together, by what their folders share.

    Raises:
      UserError: a folder is not that of a run, or two runs are the same.
    """
    by_name = {path.resolve(): name for name, path in named(workdirs).items()}
    found = groups(map(load, workdirs))
    shared = [_shared([by_name[r.path.resolve()] for r in g.runs]) for g in found]
    whole = [by_name[g.runs[0].path.resolve()] for g in found]
    names = [
        a if shared.count(a) == 1 else b for a, b in zip(shared, whole, strict=True)
    ]
    return dict(zip(names, found, strict=True))


def _shared(names: Sequence[str]) -> str:
    """`protonorm (2 seeds)` of protonorm-seed0 and protonorm-seed1."""
    if len(names) == 1:
        return names[0]
    stems = {re.sub(r"[-_]?(seed)?\d+$", "", name) for name in names}
    return f"{stems.pop() if len(stems) == 1 else names[0]} ({len(names)} seeds)"


def finished(run: Run) -> dict:
    """The summary of a run.

    Raises:
      UserError: it is not finished.
    """
    return run.results
