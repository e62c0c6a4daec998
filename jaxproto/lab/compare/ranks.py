"""Marks of the best and second entry of a column, and ranks of rows."""

import itertools
from collections.abc import Sequence

import pandas as pd

from jaxproto.lab.compare.columns import METRIC, RANK, TEST, CellValue, Column, entry

SHOWN = ("average", "all")  # choices of --ranks
BEST, SECOND = "best", "second"


def best_and_second(column: Column) -> list[str]:
    """Returns best, second or "" of each entry; equal texts have the same mark."""
    ranks = _ranks(column, "dense") if column.better else pd.Series(dtype=float)
    if ranks.count() < 2:
        return [""] * len(column.entries)
    return ranks.map({1: BEST, 2: SECOND}).fillna("").to_list()


def with_ranks(columns: Sequence[Column], shown: str) -> list[Column]:
    """Adds a rank after each column of the metric, and average ranks at the end.

    If `shown` is "average", not "all", it adds the average ranks alone.
    """
    result: list[Column] = []
    for column, following in itertools.zip_longest(columns, columns[1:]):
        result.append(column)
        if column.kind == METRIC:
            ranked = _cells(_ranks(column), ".1f")
            rank = Column(f"{column.title} rank", column.dataset, RANK, ranked)
        last = following is None or following.kind != TEST  # after its column of p
        if shown == "all" and column.kind in (METRIC, TEST) and last:
            result.append(rank)
    ranks = pd.DataFrame([_ranks(c) for c in columns if c.kind == METRIC])
    average = _cells(ranks.mean(skipna=False), ".2f")
    return [*result, Column("average rank", "", RANK, average, -1)]


def _ranks(column: Column, method: str = "average") -> pd.Series:
    """Returns the ranks: 1 is best; equal numbers share their mean rank by default."""
    means = pd.Series([e.mean for e in column.entries], dtype=float)
    return means.rank(method=method, ascending=column.better < 0)


def _cells(numbers: pd.Series, form: str) -> tuple[CellValue, ...]:
    return tuple(CellValue() if pd.isna(x) else entry(f"{x:{form}}") for x in numbers)


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
