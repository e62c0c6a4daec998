"""Watcher that reports run directories of other processes to a live table."""

import time
from collections.abc import Sequence

from jaxproto.lab.sweeps.live_table import LiveTable
from jaxproto.lab.sweeps.plan import Cell
from jaxproto.storage.run_folder import RunFolder
from jaxproto.training.progress import accuracy_text

RECENT = 10  # evaluations that estimate the remaining time


class WorkdirWatcher:
    """Reports changes in the run directories of cells."""

    def __init__(self, cells: Sequence[Cell], table: LiveTable):
        """Reports the cells that have already ended."""
        self._table = table
        self._stamps = {cell.name: RunFolder.at(cell.path).stamp() for cell in cells}
        self._began: dict[str, float] = {}
        self._running = list(cells)
        self.poll()

    def poll(self):
        """Reports changes since the last call."""
        for cell in list(self._running):
            run = RunFolder.at(cell.path)
            if run.status(cell.config.rounds).ended:
                self._running.remove(cell)
                start = self._began.get(cell.name)
                seconds = 0.0 if start is None else time.perf_counter() - start
                self._table.ended(cell, run.summary or {}, seconds)
                continue
            stamp = run.stamp()
            if stamp != self._stamps[cell.name]:
                self._stamps[cell.name] = stamp
                self._report(cell, run)

    def _report(self, cell: Cell, run: RunFolder):
        """Reports the newest record of a cell."""
        record = run.newest()
        if record is None:
            return
        self._began.setdefault(cell.name, time.perf_counter())
        recent = self._table.row(cell).seconds
        if isinstance(record.get("seconds"), float):
            recent = (*recent, record["seconds"])[-RECENT:]
        self._table.set(
            cell,
            state="running",
            round=record["round"],
            accuracy=accuracy_text(record),
            seconds=recent,
        )
