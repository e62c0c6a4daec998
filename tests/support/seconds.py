"""Writes tests/seconds.json from what runs of the tests took, group by group.

A file of more than `DIVIDED` seconds is divided into its functions.

    JAXPROTO_TEST_SECONDS=default.tsv python -m pytest -n 2 --dist loadfile
    JAXPROTO_TEST_SECONDS=long.tsv python -m pytest -n 2 --dist loadfile -m long
    python -m tests.support.seconds default.tsv long.tsv

A kind that is not given keeps its seconds: `python -m tests.support.seconds a.tsv ""`.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from . import selection

DIVIDED = 100.0  # seconds of a file


def table(lines: list[str]) -> dict[str, float]:
    """Sums the seconds of each group: setup, call and teardown."""
    groups: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        seconds, _, nodeid = line.partition("\t")
        functions = groups[selection.group_of(nodeid, {})]
        functions[selection.function_of(nodeid)] += float(seconds)
    total: dict[str, float] = {}
    for name, functions in groups.items():
        whole = sum(functions.values())
        divided = whole > DIVIDED and name.endswith(".py")
        total |= functions if divided else {name: whole}
    return {name: round(s, 1) for name, s in sorted(total.items())}


def main(default: str, long: str) -> None:
    found = selection.seconds_table()
    for kind, file in (("default", default), ("long", long)):
        if file:
            found[kind] = table(Path(file).read_text().splitlines())
    selection.SECONDS_FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
