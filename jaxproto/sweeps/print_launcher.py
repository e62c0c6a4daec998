"""A sweep in parts: how many, and the command of each, for a queue such as SLURM's."""

import re
import shlex
from collections.abc import Sequence

from jaxproto.errors import UserError
from jaxproto.sweeps.plan import Plan

FLAGS = ("launcher", "parts", "task_cpus", "task_gpus", "ray_address")


def num_parts(whole: Plan, asked: int, usual: int) -> int:
    """How many parts a sweep has.

    Args:
      asked: by the user; 0 takes the usual number.
      usual: at most one part per cell is made of it.

    Raises:
      UserError: there would be parts without a cell.
    """
    if asked > len(whole.cells):
        raise UserError(
            f"--parts={asked} is more than the {len(whole.cells)} cells of the sweep; "
            f"give {len(whole.cells)} at most."
        )
    return asked or max(1, min(usual, len(whole.cells)))


def without_launcher(words: Sequence[str]) -> list[str]:
    """A command line without the flags that say how its parts are launched."""
    kept, skip = [], False
    for word in words:
        found = re.fullmatch(rf"--?(?:{'|'.join(FLAGS)})(=.*)?", word, re.DOTALL)
        if found is None and not skip:
            kept.append(word)
        skip = found is not None and found[1] is None  # its value is the next word
    return kept


def commands(words: Sequence[str], whole: Plan, parts: int = 0) -> list[str]:
    """A shell command per part, which trains it alone.

    Args:
      words: the command of the sweep, word by word.
      parts: how many; 0 is one for each set of programs.

    Raises:
      UserError: there are fewer cells.
    """
    n = num_parts(whole, parts, len(whole.groups))
    plain = without_launcher(words)
    return [shlex.join([*plain, f"--part={k}/{n}"]) for k in range(n)]
