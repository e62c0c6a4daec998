"""Tables of texts, as the page shows them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxproto.lab.plots.curves import UNITS, largest_unit
from jaxproto.summary.table_formats import MISSING

_NUMBER = re.compile(r"-?[\d,]*\.?\d+( ± [\d.]+)?( [kMG]?B| s| MiB)?")


class Table(NamedTuple):
    """A caption, which also names the table, and cells."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def right(self) -> list[bool]:
        """Returns, for each column, whether all of its cells are numbers."""
        return [
            any(row[k] != MISSING for row in self.rows)
            and all(_NUMBER.fullmatch(row[k]) or row[k] == MISSING for row in self.rows)
            for k in range(len(self.head))
        ]


def per_cent(share: float | None) -> str:
    """Returns a share in percent, such as `81.30` for 0.813."""
    return MISSING if share is None else f"{100 * share:.2f}"


def amount(size: float | None) -> str:
    """Returns bytes with a unit, such as `1.25 MB`."""
    if size is None:
        return MISSING
    unit, factor = largest_unit(size, UNITS)
    return f"{size / factor:,.{0 if unit == 'B' else 2}f} {unit}"
