"""Tells a board what work directories say, where other processes train."""

import time
from collections.abc import Sequence

from jaxproto.storage.run_folder import RunFolder
from jaxproto.sweeps.live_table import LiveTable
from jaxproto.sweeps.plan import Cell
from jaxproto.training.progress import accuracy_text

RECENT = 10  # evaluations behind the time left


class WorkdirWatcher:
    """Looks for what has changed in the folders of cells."""

    def __init__(self, cells: Sequence[Cell], board: LiveTable):
        """Cells that have ended are told of as in a sweep of this process."""
        self._board = board
        self._seen = {cell.name: RunFolder.at(cell.path).stamp() for cell in cells}
        self._began: dict[str, float] = {}
        self._left = list(cells)
        self.poll()

    def poll(self):
        """Tells the board what is new since the last look."""
        for cell in list(self._left):
            run = RunFolder.at(cell.path)
            if run.status(cell.config.rounds).ended:
                self._left.remove(cell)
                began = self._began.get(cell.name)
                took = 0.0 if began is None else time.perf_counter() - began
                self._board.ended(cell, run.summary or {}, took)
                continue
            now = run.stamp()
            if now != self._seen[cell.name]:
                self._seen[cell.name] = now
                self._tell(cell, run)

    def _tell(self, cell: Cell, run: RunFolder):
        """Of the newest record of a cell."""
        record = run.newest()
        if record is None:
            return
        self._began.setdefault(cell.name, time.perf_counter())
        recent = self._board.row(cell).seconds
        if isinstance(record.get("seconds"), float):
            recent = (*recent, record["seconds"])[-RECENT:]
        self._board.set(
            cell,
            state="running",
            round=record["round"],
            accuracy=accuracy_text(record),
            seconds=recent,
        )
