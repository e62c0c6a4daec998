"""Tidy tables of the records of a run, with columns as numpy arrays."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict
from tabulate import tabulate

from jaxproto.errors import UserError, choose_from

SHOWN = 20  # rows that are printed


class Table:
    """Named columns of equal length; `len` and iteration are over rows.

    `table["round"]` is a numpy array, `table.where(rule="head")` the rows of one rule,
    and `table.to_pandas()` a data frame (this alone needs pandas). `for row in table`
    gives a dictionary for each row.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        self._columns = dict(columns)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """Makes a table of rows, with columns in the order of their first appearance.

        Missing values are nan, or "" in a column of texts.
        """
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: _column([row.get(name) for row in rows]) for name in names})

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[choose_from("column", name, self._columns)]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = [column.tolist() for column in self._columns.values()]
        for values in zip(*columns, strict=True):
            yield dict(zip(self._columns, values, strict=True))

    def where(self, **values) -> "Table":
        """Returns the rows whose columns have these values."""
        chosen = np.ones(len(self), bool)
        for name, value in values.items():
            chosen &= self[name] == value
        return Table({name: a[chosen] for name, a in self._columns.items()})

    def to_dict(self) -> dict[str, np.ndarray]:
        """Returns the columns by name."""
        return dict(self._columns)

    def to_pandas(self):
        """Returns a pandas.DataFrame of the columns.

        Raises:
          UserError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as e:
            raise UserError(
                "pandas is not installed, which to_pandas needs: python -m pip install "
                "pandas, or use the columns as they are (table['round'])."
            ) from e
        return pandas.DataFrame(self._columns)

    def __repr__(self) -> str:
        first = {name: a[:SHOWN].tolist() for name, a in self._columns.items()}
        text = tabulate(first, headers="keys", missingval="")
        hidden = len(self) - SHOWN
        return text + (f"\n... {hidden} more rows" if hidden > 0 else "")


def _column(values: Sequence[Any]) -> np.ndarray:
    """Returns an array of texts, integers or floats."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if v is None else str(v) for v in values])
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return np.array(values, np.int64)
    return np.array([np.nan if v is None else v for v in values], float)


EMPTY = Table({"round": np.zeros(0, np.int64), "rule": np.zeros(0, np.str_)})


def metrics_table(records: Sequence[Mapping]) -> Table:
    """Returns a table with one row for each evaluated round and rule.

    The columns are `round` and `rule`; then values of the rule (`pooled`,
    `client_mean`, `client_std`, `client_min`, `client_max` of the accuracy; for another
    metric with its name in front); then values of the round, equal in all its rows
    (`loss` of training, `participants`, `bytes_up`, `bytes_total_up`, `seconds`, ...).
    Lists in a record, such as the bytes of every client, are left out.

    Args:
      records: Records of `metrics.jsonl`.
    """
    rows = [row for record in records for row in _rows(record)]
    return Table.of_rows(rows) if rows else EMPTY


def _rows(record: Mapping) -> Iterator[dict[str, Any]]:
    of_round = {k: v for k, v in record.items() if k not in ("round", "rules")}
    metrics = of_round.pop("metrics", {})
    for rule, accuracy in record.get("rules", {}).items():
        yield {
            "round": record["round"],
            "rule": rule,
            **_numbers(accuracy),
            **_numbers(metrics.get(rule, {})),
            **_numbers(of_round),
        }


def _numbers(nested: Mapping) -> dict[str, Any]:
    """Returns the numbers of nested dictionaries, names joined by an underscore."""
    flat = flatten_dict(nested, sep="_")
    return {k: v for k, v in flat.items() if v is None or isinstance(v, int | float)}
