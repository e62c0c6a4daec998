"""A table of texts, as the page shows it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

MISSING = "-"
_NUMBER = re.compile(r"-?[\d,]*\.?\d+( ± [\d.]+)?( [kMG]?B| s| MiB)?")


class Table(NamedTuple):
    """A caption, which also names the table, and cells."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def right(self) -> list[bool]:
        """Columns that stand on the right: all of their cells are numbers."""
        return [
            any(row[k] != MISSING for row in self.rows)
            and all(_NUMBER.fullmatch(row[k]) or row[k] == MISSING for row in self.rows)
            for k in range(len(self.head))
        ]


def per_cent(share: float) -> str:
    """`81.30` of 0.813."""
    return f"{100 * share:.2f}"


def amount(size: float | None) -> str:
    """Bytes with a unit, such as `1.25 MB`."""
    if size is None:
        return MISSING
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size) >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size:,.0f} B"
