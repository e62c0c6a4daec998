"""The averages over data sets that a paper's table ends with (RefProtoFL, Table 2)."""

import statistics
from collections.abc import Iterable, Sequence

from jaxproto.reporting.compare.paper_cells import matches, paper_cell, require_cell
from jaxproto.reporting.compare.paper_numbers import (
    ACCURACY,
    PAPERS,
    PublishedNumber,
    published_numbers,
)
from jaxproto.reporting.compare.paper_rules import published_rule
from jaxproto.reporting.compare.run_groups import SeedGroup

AVERAGE = "AVERAGE"  # how the data set of such a row begins


def footnotes(groups: Sequence[SeedGroup]) -> list[str]:
    """One sentence per method whose cells are all among the groups."""
    told = []
    for row in published_numbers():
        if not row.dataset.startswith(AVERAGE):
            continue
        parts = [_cell(groups, one) for one in _averaged(row)]
        known = [part for part in parts if part is not None]
        if parts and len(known) == len(parts):
            mean = statistics.fmean(known)
            told.append(
                f"Average over the {len(parts)} cells of {row.method} in "
                f"{PAPERS[row.source]}, Table {row.table}: {mean:.2f} (best by "
                f"{published_rule(_averaged(row)[0])}); published {row.mean}."
            )
    return told


def _averaged(row: PublishedNumber) -> list[PublishedNumber]:
    """The cells that a printed average is of."""
    alike = (row.source, row.table, row.method, row.variant)
    return [
        one
        for one in published_numbers()
        if (one.source, one.table, one.method, one.variant) == alike
        and one.metric in ACCURACY
        and paper_cell(one) is not None
    ]


def _cell(groups: Iterable[SeedGroup], row: PublishedNumber) -> float | None:
    """Best accuracy in %, mean over seeds, of the first group in a cell."""
    rule, average = published_rule(row)
    for g in groups:
        if not matches(require_cell(row).identity, g.config, g.dataset):
            continue
        rules = [r.results["rules"] for r in g.finished]
        best = [of[rule][average]["best"] for of in rules if rule in of]
        if best:
            return 100 * statistics.fmean(best)
    return None
