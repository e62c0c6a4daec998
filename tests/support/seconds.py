"""Writes tests/seconds.json from what runs of the tests took, group by group.

    JAXPROTO_TEST_SECONDS=default.tsv python -m pytest -n 2 --dist loadfile
    JAXPROTO_TEST_SECONDS=long.tsv python -m pytest -n 2 --dist loadfile -m long
    python -m tests.support.seconds default.tsv long.tsv

A kind that is not given keeps its seconds: `python -m tests.support.seconds a.tsv ""`.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from . import selection


def table(lines: list[str]) -> dict[str, float]:
    """Sums the seconds of each group: setup, call and teardown."""
    total: Counter[str] = Counter()
    for line in lines:
        seconds, _, nodeid = line.partition("\t")
        total[selection.group_of(nodeid)] += float(seconds)
    return {name: round(s, 1) for name, s in sorted(total.items())}


def main(default: str, long: str) -> None:
    found = selection.seconds_table()
    for kind, file in (("default", default), ("long", long)):
        if file:
            found[kind] = table(Path(file).read_text().splitlines())
    selection.SECONDS_FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
