"""Averages over data sets as in the last columns of RefProtoFL's Table 2."""

import statistics
from collections.abc import Iterable, Sequence

from jaxproto.reporting.compare.paper_cells import matches, paper_cell, require_cell
from jaxproto.reporting.compare.paper_numbers import (
    ACCURACY,
    PublishedNumber,
    published_numbers,
)
from jaxproto.reporting.compare.paper_rules import published_rule
from jaxproto.reporting.compare.run_groups import SeedGroup

AVERAGE = "AVERAGE"  # prefix of the data set of a printed average


def footnotes(groups: Sequence[SeedGroup]) -> list[str]:
    """Returns a sentence per method that has a run in each of its cells."""
    notes = []
    for row in (r for r in published_numbers() if r.dataset.startswith(AVERAGE)):
        averaged = _averaged(row)
        known = [best for c in averaged if (best := _best(groups, c)) is not None]
        if averaged and len(known) == len(averaged):
            notes.append(
                f"Average over the {len(known)} cells of {row.method} in {row.place}: "
                f"{statistics.fmean(known):.2f} (best by "
                f"{published_rule(averaged[0])}); published {row.mean}."
            )
    return notes


def _averaged(row: PublishedNumber) -> list[PublishedNumber]:
    """Returns the cells that go into a printed average."""
    return [
        cell
        for cell in published_numbers()
        if (cell.source, cell.table) == (row.source, row.table)
        and (cell.method, cell.variant) == (row.method, row.variant)
        and cell.metric in ACCURACY
        and paper_cell(cell) is not None
    ]


def _best(groups: Iterable[SeedGroup], row: PublishedNumber) -> float | None:
    """Returns the best accuracy in %, mean over seeds, of the first group in a cell."""
    rule, average = published_rule(row)
    identity = require_cell(row).identity
    for g in groups:
        if not matches(identity, g.config, g.dataset):
            continue
        by_run = [r.results["rules"] for r in g.finished]
        best = [rules[rule][average]["best"] for rules in by_run if rule in rules]
        if best:
            return 100 * statistics.fmean(best)
    return None
