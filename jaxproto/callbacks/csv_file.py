"""Writer of `metrics.csv`, a tidy table of round, name and value."""

import csv
import io
from collections.abc import Iterable, Mapping

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points
from jaxproto.io import atomic


class CsvWriter(Callback):
    """Writes `metrics.csv` into the work directory.

    A resumed run rewrites the file from `metrics.jsonl`, so no round appears twice.
    """

    def on_start(self, run_info: RunInfo):
        """Writes the file with the saved records."""
        self._path = run_info.path / "metrics.csv"
        text = "round,name,value\n" + to_csv(run_info.records)
        atomic.write(self._path, text.encode())

    def on_evaluation(self, record: Mapping):
        """Adds the rows of a record."""
        with self._path.open("a", newline="") as file:
            file.write(to_csv([record]))


def to_csv(records: Iterable[Mapping]) -> str:
    """Returns a line of CSV for every scalar of the records."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for record in records:
        for r, values in scalar_points(record):
            writer.writerows((r, name, value) for name, value in values.items())
    return text.getvalue()
