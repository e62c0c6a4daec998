"""Analysis of the text of an optimised HLO module: calls, collectives, traffic."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "s64": 8, "u64": 8, "s32": 4}
BYTES |= {"u32": 4, "s16": 2, "u16": 2, "s8": 1, "u8": 1, "pred": 1}
COLLECTIVES = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    r"|collective-broadcast|ragged-all-to-all)(?:-start)?\("
)
CUSTOM_CALLS = re.compile(r'custom_call_target="([^"]+)"')
FUSIONS = re.compile(r'"kind":"(__[^"]+)"')
GROUPS = re.compile(r"feature_group_count=(\d+)")
ARRAY = re.compile(r"\b(%s)\[([\d,]*)\](?:\{([^}]*)\})?" % "|".join(BYTES))  # noqa: UP031
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$")
START = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
CALLED = re.compile(r"(?:body|condition)=%?([\w.\-]+)")
NO_WORK = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while"}


class Moved(NamedTuple):
    """An array that an instruction reads or writes."""

    bytes: int
    main: bool  # in HBM; otherwise in a memory of the core, such as VMEM


def collectives(text: str) -> dict[str, int]:
    """Counts collective operations by name."""
    return dict(Counter(COLLECTIVES.findall(text)))


def library_calls(text: str) -> dict[str, int]:
    """Counts custom calls by target, and fusions with a special kernel by kind."""
    return dict(Counter([*CUSTOM_CALLS.findall(text), *FUSIONS.findall(text)]))


def grouped(text: str) -> dict[str, int]:
    """Counts convolutions with several groups, by the number of groups."""
    return dict(Counter(GROUPS.findall(text)))


def traffic(text: str) -> dict[str, int]:
    """Returns the bytes that cross the HBM, and those within the core's own memory.

    Operands and results of every instruction count, and the body of a loop counts once.
    A copy between the two memories counts once. An operand counts completely, even if
    only a slice of it is read.
    """
    bodies, entry = computations(text)
    moved: Counter = Counter()
    left, seen = [entry], set()
    while left:
        name = left.pop()
        if name in seen or name not in bodies:
            continue
        seen.add(name)
        left += CALLED.findall("\n".join(bodies[name]))
        for array in work(bodies[name]):
            moved["hbm" if array.main else "core"] += array.bytes
    return {"hbm": moved["hbm"], "core": moved["core"]}


def computations(text: str) -> tuple[dict[str, list[str]], str]:
    """Returns the lines of each computation, and the name of the entry."""
    bodies: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        if start := START.match(line):
            name = start[2]
            bodies[name] = []
            entry = name if start[1] else entry
        elif name:
            bodies[name].append(line)
    return bodies, entry


def work(lines: list[str]) -> Iterator[Moved]:
    """Yields the arrays that the instructions of one computation read and write."""
    results: dict[str, list[Moved]] = {}
    for line in lines:
        if not (matched := INSTRUCTION.match(line)):
            continue
        name, shape, operation, rest = matched.groups()
        results[name] = out = [*arrays(shape)]
        if operation in NO_WORK or operation.endswith("-done"):
            continue
        if operation in ("copy-start", "slice-start"):
            small = min(out[:2], key=lambda a: a.bytes)
            yield Moved(small.bytes, True)
            continue
        yield from out
        for operand in re.findall(r"%([\w.\-]+)", rest.split("), ")[0]):
            yield from results.get(operand, [])


def arrays(shape: str) -> Iterator[Moved]:
    """Yields the arrays of a shape; one without a memory space S(n) is in the HBM."""
    for kind, sizes, layout in ARRAY.findall(shape):
        count = math.prod(int(n) for n in sizes.split(",") if n)
        yield Moved(count * BYTES[kind], "S(" not in layout)
