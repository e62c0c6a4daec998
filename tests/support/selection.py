"""Selection of a landing's long tests, and the order of test files.

A *group* is a file, one method's part of a file that runs for every method, or one
function of a file that takes long: its tests share fixtures and compiled programs. A
landing (`--slice=K/N`) runs the long tests marked `landing`, every group of slice K of
N, and as many groups that concern files changed since yesterday as fit into `CHANGED`
seconds.
"""

import heapq
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from jaxproto.methods import METHODS

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SECONDS_FILE = TESTS / "seconds.json"
CHANGED = 60.0
UNKNOWN = 5.0  # seconds of a group that is not in the table
OVER_METHODS = {  # files whose tests run for every method, by a parameter `name`
    "test_accept_of_methods.py",
    "test_contract.py",
    "test_cost.py",
    "test_program_cache.py",
    "test_statistics.py",
}


def seconds_table() -> dict[str, dict[str, float]]:
    """Returns {"default" or "long": {group: seconds}}."""
    return json.loads(SECONDS_FILE.read_text())


def group_of(nodeid: str, seconds: Mapping) -> str:
    """Returns the group of a test; that of a function, where the table has it."""
    file, _, test = nodeid.removeprefix("tests/").partition("::")
    if (function := function_of(nodeid)) in seconds:
        return function
    method = re.findall(r"\w+", test)[-1]  # the last parameter, if it is one
    by_method = Path(file).name in OVER_METHODS and method in METHODS
    return f"{file}-{method}" if by_method else file


def function_of(nodeid: str) -> str:
    """Returns FILE::FUNCTION of a test, without its parameters."""
    return nodeid.removeprefix("tests/").partition("[")[0]


def slices(groups: Iterable[str], seconds: Mapping, number: int) -> list[set[str]]:
    """Divides groups into sets of about equal seconds: the longest first."""
    heap = [(0.0, i) for i in range(number)]
    parts: list[set[str]] = [set() for _ in range(number)]
    for name in sorted(groups, key=lambda g: (-seconds.get(g, UNKNOWN), g)):
        total, i = heapq.heappop(heap)
        parts[i].add(name)
        heapq.heappush(heap, (total + seconds.get(name, UNKNOWN), i))
    return parts


def changed_files() -> list[str]:
    """Returns the paths whose content differs from the newest commit of a day ago."""

    def git(*args: str) -> str:
        command = ["git", "-C", str(ROOT), *args]
        return subprocess.check_output(command, text=True)

    base = git("rev-list", "-1", "--before=1 day ago", "HEAD").strip()
    if not base:
        return git("ls-files").split("\n")[:-1]
    lines = git("diff", "--name-status", "-M", base, "HEAD").splitlines()
    fields = [line.split("\t") for line in lines]
    return [names[-1] for status, *names in fields if status not in ("D", "R100")]


def concerns(test_file: str, changed: Iterable[str]) -> bool:
    """Returns whether a test file, or the module that it is named after, changed."""
    path = Path(test_file)
    room = path.parent.relative_to("tests")
    module = path.stem.removeprefix("test_") + ".py"
    folder = Path(*room.parts[1:])  # `kernel` and `run` are no folders of the package
    mirrored = {test_file, str(room / module)}  # the second of benchmarks/
    mirrored |= {str(Path("jaxproto") / f / module) for f in (room, folder)}
    return not mirrored.isdisjoint(changed)


def fitting(groups: Iterable[str], seconds: Mapping, limit: float) -> list[str]:
    """Returns the groups that fit into `limit` seconds together: the shortest first."""
    kept, total = [], 0.0
    for name in sorted(groups, key=lambda g: (seconds.get(g, UNKNOWN), g)):
        total += seconds.get(name, UNKNOWN)
        if total > limit:
            break
        kept.append(name)
    return kept
