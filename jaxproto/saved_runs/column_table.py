"""A tidy table: named columns of equal length, as numpy arrays."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tabulate import tabulate

from jaxproto.errors import UserError, choose_from

SHOWN = 20  # rows that are printed


class Table:
    """Columns by name; `len` and iteration are over rows.

    `table["round"]` is a numpy array, `table.where(rule="head")` the rows of one rule,
    `for row in table` gives a dictionary for each row, and `table.to_pandas()` a data
    frame where pandas is installed (nothing here needs it).
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        """Of arrays of equal length."""
        self._columns = dict(columns)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """Columns in the order in which rows first name them; nan where one does not.

        A column of texts has "" there.
        """
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: _column([row.get(name) for row in rows]) for name in names})

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names."""
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
        """The rows whose columns have these values."""
        chosen = np.ones(len(self), bool)
        for name, value in values.items():
            chosen &= self[name] == value
        return Table({name: a[chosen] for name, a in self._columns.items()})

    def to_dict(self) -> dict[str, np.ndarray]:
        """The columns by name."""
        return dict(self._columns)

    def to_pandas(self):
        """A pandas.DataFrame of the same columns.

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
    """Whole numbers, numbers or texts as one array."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if v is None else str(v) for v in values])
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return np.array(values, np.int64)
    return np.array([np.nan if v is None else v for v in values], float)
