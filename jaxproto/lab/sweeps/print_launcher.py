"""Shell commands of the parts of a sweep, for a queue such as SLURM."""

import re
import shlex
from collections.abc import Sequence

from jaxproto.errors import UserError
from jaxproto.lab.sweeps.plan import Plan

FLAGS = ("launcher", "parts", "task_cpus", "task_gpus", "ray_address")


def num_parts(whole: Plan, requested: int, default: int) -> int:
    """Returns the number of parts of a sweep.

    Args:
      requested: Number that the user gives; 0 takes the default.
      default: Default number, limited to one part per cell.
    """
    if requested > len(whole.cells):
        raise UserError(
            f"--parts={requested} is more than the {len(whole.cells)} cells of the "
            f"sweep; give {len(whole.cells)} at most."
        )
    return requested or max(1, min(default, len(whole.cells)))


def without_launcher(words: Sequence[str]) -> list[str]:
    """Removes the launcher flags from a command line."""
    remaining, skip = [], False
    for word in words:
        match = re.fullmatch(rf"--?(?:{'|'.join(FLAGS)})(=.*)?", word, re.DOTALL)
        if match is None and not skip:
            remaining.append(word)
        skip = match is not None and match[1] is None  # the next word is its value
    return remaining


def commands(words: Sequence[str], whole: Plan, parts: int = 0) -> list[str]:
    """Returns a shell command per part; 0 parts make one per program group.

    Args:
      words: Words of the command of the sweep.
    """
    n = num_parts(whole, parts, len(whole.groups))
    plain = without_launcher(words)
    return [shlex.join([*plain, f"--part={k}/{n}"]) for k in range(n)]
