"""Marks of the best and second entry of a column, and ranks of rows."""

import itertools
from collections.abc import Sequence
from statistics import fmean

from scipy.stats import rankdata

from jaxproto.lab.compare.columns import METRIC, RANK, TEST, CellValue, Column, entry

SHOWN = ("average", "all")  # choices of --ranks
BEST, SECOND = "best", "second"


def best_and_second(column: Column) -> list[str]:
    """Returns best, second or "" of each entry; equal texts have the same mark."""
    means = [e.mean if column.better else None for e in column.entries]
    order = sorted({m * column.better for m in means if m is not None}, reverse=True)
    if sum(m is not None for m in means) < 2:
        return [""] * len(means)
    marks = dict(zip(order, (BEST, SECOND), strict=False))
    return ["" if m is None else marks.get(m * column.better, "") for m in means]


def with_ranks(columns: Sequence[Column], shown: str) -> list[Column]:
    """Adds a rank after each column of the metric, and average ranks at the end.

    If `shown` is "average", not "all", it adds the average ranks alone.
    """
    result: list[Column] = []
    for column, following in itertools.zip_longest(columns, columns[1:]):
        result.append(column)
        if column.kind == METRIC:
            ranked = _ranks(column)
        last = following is None or following.kind != TEST  # after its column of p
        if shown == "all" and column.kind in (METRIC, TEST) and last:
            result.append(ranked)
    return [*result, _average([_ranks(c) for c in columns if c.kind == METRIC])]


def _ranks(column: Column) -> Column:
    """Returns the column of ranks: 1 is best; equal numbers share their mean rank."""
    means = [e.mean for e in column.entries]
    known = [-column.better * m for m in means if m is not None]
    ranks = iter(rankdata(known).tolist())
    entries = [CellValue() if m is None else entry(f"{next(ranks):.1f}") for m in means]
    return Column(f"{column.title} rank", column.dataset, RANK, tuple(entries))


def _average(ranked: Sequence[Column]) -> Column:
    """Returns the average rank of each row that has a rank in every column."""
    entries = []
    for row in zip(*(column.entries for column in ranked), strict=True):
        known = [e.mean for e in row if e.mean is not None]
        complete = len(known) == len(row)
        entries.append(entry(f"{fmean(known):.2f}") if complete else CellValue())
    return Column("average rank", "", RANK, tuple(entries), -1)


def caption(columns: Sequence[Column], names: Sequence[str]) -> str:
    """Returns a note that explains the ranks and names rows without an average."""
    num_ranks = sum(column.kind == METRIC for column in columns)
    (average,) = (c for c in columns if c.title == "average rank")
    lacking = [n for n, e in zip(names, average.entries, strict=True) if e.mean is None]
    text = (
        f"Average of {num_ranks} rank{'s' * (num_ranks > 1)}, one per data set, rule "
        "and statistic; 1 is best, and equal numbers share the mean of their ranks."
    )
    if lacking:
        text += f" No average without a number in each: {', '.join(lacking)}."
    return text
