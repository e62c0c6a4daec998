"""Which entries of a column are best and second, and the ranks of rows."""

import itertools
import statistics as stats
from collections.abc import Sequence

from scipy.stats import rankdata

from jaxproto.reporting.compare.columns import METRIC, RANK, TEST, CellValue, Column

SHOWN = ("average", "all")  # choices of --ranks
BEST, SECOND = "best", "second"


def best_and_second(column: Column) -> list[str]:
    """Best and second best by what is printed: equal numbers have the same mark."""
    means = [e.mean if column.better else None for e in column.entries]
    order = sorted({m * column.better for m in means if m is not None}, reverse=True)
    if sum(m is not None for m in means) < 2:
        return [""] * len(means)
    names = dict(zip(order, (BEST, SECOND), strict=False))
    return ["" if m is None else names.get(m * column.better, "") for m in means]


def with_ranks(columns: Sequence[Column], shown: str) -> list[Column]:
    """The columns with a rank beside each of the metric, and average ranks at the end.

    Args:
      columns: of a table.
      shown: one of `SHOWN`; "average" leaves out the former.
    """
    result: list[Column] = []
    for column, following in itertools.zip_longest(columns, columns[1:]):
        result.append(column)
        if column.kind == METRIC:
            ranked = _ranks(column)
        last = following is None or following.kind != TEST  # a p stands in between
        if shown == "all" and column.kind in (METRIC, TEST) and last:
            result.append(ranked)
    return [*result, _average([_ranks(c) for c in columns if c.kind == METRIC])]


def _ranks(column: Column) -> Column:
    """1 is best; equal numbers share the mean of their ranks."""
    means = [e.mean for e in column.entries]
    known = [-column.better * m for m in means if m is not None]
    found = iter(rankdata(known).tolist())
    entries = [
        CellValue() if m is None else CellValue(f"{next(found):.1f}") for m in means
    ]
    return Column(f"{column.title} rank", column.dataset, RANK, tuple(entries))


def _average(ranked: Sequence[Column]) -> Column:
    """Of the rows that have a rank everywhere."""
    entries = []
    for row in zip(*(column.entries for column in ranked), strict=True):
        known = [entry.mean for entry in row if entry.mean is not None]
        whole = len(known) == len(row)
        entries.append(
            CellValue(f"{stats.fmean(known):.2f}" if whole else CellValue().text)
        )
    return Column("average rank", "", RANK, tuple(entries), -1)


def caption(columns: Sequence[Column], names: Sequence[str]) -> str:
    """What the ranks are of, and who has no average."""
    number = sum(column.kind == METRIC for column in columns)
    (average,) = (c for c in columns if c.title == "average rank")
    lacking = [n for n, e in zip(names, average.entries, strict=True) if e.mean is None]
    text = (
        f"Average of {number} rank{'s' * (number > 1)}, one per data set, rule and "
        "statistic; 1 is best, and equal numbers share the mean of their ranks."
    )
    if lacking:
        text += f" No average without a number in each: {', '.join(lacking)}."
    return text
