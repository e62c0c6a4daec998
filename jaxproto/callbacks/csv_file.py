"""Writer of `metrics.csv`, a tidy table of round, name and value."""

import csv
import io
from collections.abc import Mapping, Sequence

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points
from jaxproto.io import atomic

HEAD = ("round", "name", "value")


class CsvWriter(Callback):
    """Writes `metrics.csv` into the work directory.

    A resumed run rewrites the file from `metrics.jsonl`, so no round appears twice.
    """

    def on_start(self, run_info: RunInfo):
        """Writes the records from before the first round."""
        self._path = run_info.path / "metrics.csv"
        rows = [HEAD, *(row for record in run_info.records for row in rows_of(record))]
        atomic.write(self._path, to_csv(rows).encode())

    def on_evaluation(self, record: Mapping):
        """Adds the rows of a record."""
        with self._path.open("a", newline="") as file:
            file.write(to_csv(rows_of(record)))


def rows_of(record: Mapping) -> list[tuple]:
    """Returns a row for every number of a record."""
    points = scalar_points(record)
    return [(r, *entry) for r, values in points for entry in values.items()]


def to_csv(rows: Sequence[tuple]) -> str:
    """Returns rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
