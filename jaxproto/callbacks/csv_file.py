"""`metrics.csv`: the numbers of a run as a tidy table, round,name,value."""

import csv
import io
from collections.abc import Mapping, Sequence

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points
from jaxproto.io import atomic

HEAD = ("round", "name", "value")


class CsvWriter(Callback):
    """Writes `metrics.csv` into the work directory.

    When a run goes on the file is made anew from `metrics.jsonl`, so that no round is
    there twice.
    """

    def on_start(self, run_info: RunInfo):
        """Writes what is known before the first round."""
        self._path = run_info.path / "metrics.csv"
        rows = [HEAD, *(row for record in run_info.records for row in rows_of(record))]
        atomic.write(self._path, to_csv(rows).encode())

    def on_evaluation(self, record: Mapping):
        """Adds the rows of a record."""
        with self._path.open("a", newline="") as file:
            file.write(to_csv(rows_of(record)))


def rows_of(record: Mapping) -> list[tuple]:
    """A row for every number of a record."""
    return [
        (p.round, *entry) for p in scalar_points(record) for entry in p.values.items()
    ]


def to_csv(rows: Sequence[tuple]) -> str:
    """Rows as CSV."""
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows(rows)
    return made.getvalue()
