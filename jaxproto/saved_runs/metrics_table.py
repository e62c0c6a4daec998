"""The records of a run as a tidy table, with columns as numpy arrays."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tabulate import tabulate

from jaxproto.errors import UserError, choose_from

SHOWN = 20  # rows that are printed


class Table:
    """Named columns of equal length; `len` and iteration are over rows.

    `table["round"]` is a numpy array, `table.where(rule="head")` the rows of one rule,
    `for row in table` gives a dictionary for each row, and `table.to_pandas()` a data
    frame where pandas is installed (nothing here needs it).
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        """Makes a table of arrays of equal length."""
        self._columns = dict(columns)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """Makes a table of rows, columns in the order in which rows first name them.

        A row without a column has nan there, or "" in a column of texts.
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
        each = [column.tolist() for column in self._columns.values()]
        for values in zip(*each, strict=True):
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
        more = len(self) - SHOWN
        return text + (f"\n... {more} more rows" if more > 0 else "")


def _column(values: Sequence[Any]) -> np.ndarray:
    """An array of texts, whole numbers or floats."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if v is None else str(v) for v in values])
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return np.array(values, np.int64)
    return np.array([np.nan if v is None else v for v in values], float)


NOTHING = Table({"round": np.zeros(0, np.int64), "rule": np.zeros(0, np.str_)})


def metrics_table(records: Sequence[Mapping]) -> Table:
    """Returns a table with one row for each evaluated round and rule.

    Columns: `round`, `rule`; then what the record says of the rule (`pooled`,
    `client_mean`, `client_std`, `client_min`, `client_max` of the accuracy; of another
    metric its name before these); then what it says of the round, the same in all rows
    of the round (`loss` of training, `participants`, `bytes_up`, `bytes_total_up`,
    `seconds`, ...). What is a list in the record (bytes of every client, what was
    watched in every round) is not here.

    Args:
      records: of `metrics_table.jsonl`.
    """
    rows = [row for record in records for row in _rows(record)]
    return Table.of_rows(rows) if rows else NOTHING


def _rows(record: Mapping) -> Iterator[dict[str, Any]]:
    of_round = {k: v for k, v in record.items() if k not in ("round", "rules")}
    more = of_round.pop("metrics", {})
    for rule, accuracy in record.get("rules", {}).items():
        yield {
            "round": record["round"],
            "rule": rule,
            **_numbers(accuracy),
            **_numbers(more.get(rule, {})),
            **_numbers(of_round),
        }


def _numbers(nested: Mapping, before: str = "") -> dict[str, Any]:
    """The numbers in nested dictionaries; names are joined by an underscore."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat |= _numbers(value, f"{before}{name}_")
        elif value is None or isinstance(value, int | float):
            flat[f"{before}{name}"] = value
    return flat
