"""The averages over data sets that a paper's table ends with (RefProtoFL, Table 2)."""

import statistics
from collections.abc import Iterable, Sequence

from jaxproto.reporting.compare.paper_cells import cell, known_cell, matches
from jaxproto.reporting.compare.paper_numbers import ACCURACY, PAPERS, Printed, printed
from jaxproto.reporting.compare.paper_rules import judged
from jaxproto.reporting.compare.run_groups import Group

AVERAGE = "AVERAGE"  # how the data set of such a row begins


def lines(groups: Sequence[Group]) -> list[str]:
    """One sentence per method whose cells are all among the groups."""
    told = []
    for row in printed():
        if not row.dataset.startswith(AVERAGE):
            continue
        parts = [_cell(groups, one) for one in _averaged(row)]
        known = [part for part in parts if part is not None]
        if parts and len(known) == len(parts):
            mean = statistics.fmean(known)
            told.append(
                f"Average over the {len(parts)} cells of {row.method} in "
                f"{PAPERS[row.source]}, Table {row.table}: {mean:.2f} (best by "
                f"{judged(_averaged(row)[0])}); published {row.mean}."
            )
    return told


def _averaged(row: Printed) -> list[Printed]:
    """The cells that a printed average is of."""
    alike = (row.source, row.table, row.method, row.variant)
    return [
        one
        for one in printed()
        if (one.source, one.table, one.method, one.variant) == alike
        and one.metric in ACCURACY
        and cell(one) is not None
    ]


def _cell(groups: Iterable[Group], row: Printed) -> float | None:
    """Best accuracy in %, mean over seeds, of the first group in a cell."""
    rule, average = judged(row)
    for g in groups:
        if not matches(known_cell(row).identity, g.config, g.dataset):
            continue
        rules = [r.results["rules"] for r in g.finished]
        best = [of[rule][average]["best"] for of in rules if rule in of]
        if best:
            return 100 * statistics.fmean(best)
    return None
