"""Console output of a sweep: plan, live table of cells, and a line per ended cell."""

import contextlib
import datetime
import io
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from jaxproto.lab.sweeps.plan import FINAL_STATUSES, Cell, Plan, cell_status
from jaxproto.storage import file_lock
from jaxproto.storage.records import chosen_on
from jaxproto.summary import progress_lines
from jaxproto.training.progress import accuracy_text

MAX_ROWS = 20  # of the live table; a larger sweep shows running cells only


class CellRow(NamedTuple):
    """State of a cell in the live table."""

    state: str  # new, round 3, running, finished, diverged, busy
    round: int = 0
    accuracy: str = ""
    seconds: tuple[float, ...] = ()  # durations of the last rounds


def plan_lines(plan: Plan, bytes_each: int) -> list[str]:
    """Returns lines with the numbers of cells and programs, and memory per cell."""
    states = [cell_status(cell) for cell in plan.cells]
    num_begun = sum(state.startswith("round") for state in states)
    num_ended = sum(state in FINAL_STATUSES for state in states)
    num_new = len(states) - num_ended - num_begun
    axes = " x ".join(f"{len(a.values)} {'+'.join(a.fields)}" for a in plan.axes)
    sizes = ", ".join(str(len(group.cells)) for group in plan.groups)
    total = math.prod(len(axis.values) for axis in plan.axes)
    prefix = "" if len(plan.cells) == total else f"{len(plan.cells)} of "
    return [
        f"sweep: {prefix}{total} cells = {axes}",
        f"{len(plan.groups)} set(s) of programs, of {sizes} cells",
        f"{num_ended} ended before, {num_begun} begun, {num_new} new",
        f"about {bytes_each / 2**20:,.0f} MiB for the data and state of one cell",
        f"table and pictures: {plan.folder}",
    ]


class LiveTable:
    """Live table of the cells of a sweep."""

    def __init__(self, plan: Plan, console: Console):
        """Reads the status of all cells."""
        self._plan, self._console = plan, console
        self._refresh: Callable[[], None] = lambda: None
        self._has_estimate = False
        self._busy = dict[str, float]()  # cell -> time it became busy; inf once noted
        self._rows = {cell.name: CellRow(cell_status(cell)) for cell in plan.cells}

    def console(self, cell: Cell) -> Console:
        """Returns a console whose lines become notes of a cell."""
        return Console(file=CellConsole(self, cell), force_terminal=False)

    @contextlib.contextmanager
    def progress(
        self, cell: Cell, total: int, start: int, console: Console
    ) -> Iterator["CellProgress"]:
        """Yields the progress of a cell, in place of `training.progress.progress`."""
        self.set(cell, state="running", round=start)
        yield CellProgress(self, cell)

    def set(self, cell: Cell, **changes):
        """Changes the row of a cell; each cell belongs to one thread."""
        self._rows[cell.name] = self._rows[cell.name]._replace(**changes)
        self._refresh()

    def row(self, cell: Cell) -> CellRow:
        """Returns the row of a cell."""
        return self._rows[cell.name]

    def first_round(self, seconds: float):
        """Prints once the time of all remaining rounds in sequence, `seconds` each."""
        rows = [(c.config.rounds, self._rows[c.name]) for c in self._plan.cells]
        rounds_left = sum(
            n - row.round for n, row in rows if row.state not in FINAL_STATUSES
        )
        if self._has_estimate or not rounds_left:
            return
        self._has_estimate = True
        left = datetime.timedelta(seconds=round(seconds * rounds_left))
        total = f"{left} for {rounds_left} rounds one after the other"
        self.note(f"{seconds:.3g} s a round: {total}")

    def busy(self, cell: Cell, why: str):
        """Marks a cell that another process trains; notes it once if it stays so."""
        since = self._busy.setdefault(cell.name, time.monotonic())
        if time.monotonic() - since > file_lock.NOTICE:
            self._busy[cell.name] = math.inf
            self.note(f"{cell.name}: waiting, {why}")
        self.set(cell, state="busy elsewhere")

    def ended(self, cell: Cell, summary: Mapping, seconds: float):
        """Marks and notes an ended cell."""
        rules = summary["rules"]
        best = {r: {"pooled": scores["pooled"]["best"]} for r, scores in rules.items()}
        text = accuracy_text({"rules": best})
        self.set(cell, state=summary["status"], round=summary["rounds"], accuracy=text)
        part = chosen_on(scores["pooled"] for scores in rules.values())
        best_text = f", best {part} round {text}" if text else ""
        self.note(f"{cell.name}: {summary['status']}{best_text}, {seconds:.1f} s")

    def note(self, text: str):
        """Prints a permanent line above the table."""
        progress_lines.say(self._console, text)

    @contextlib.contextmanager
    def live(self) -> Iterator["LiveTable"]:
        """Shows the table on a terminal, and only notes elsewhere."""
        with progress_lines.live(self._console, self.table) as self._refresh:
            yield self

    def table(self) -> Table:
        """Returns the table: round, accuracy so far and time left of each cell."""
        table, all_fit = Table(show_edge=False), len(self._plan.cells) <= MAX_ROWS
        for name in ("cell", "state", "round", "accuracy so far", "left"):
            table.add_column(name, no_wrap=True)
        for cell in self._plan.cells:
            row = self._rows[cell.name]
            if table.row_count == MAX_ROWS or not (all_fit or row.state == "running"):
                continue
            rounds = f"{row.round}/{cell.config.rounds}"
            table.add_row(
                cell.name, row.state, rounds, row.accuracy, time_left(cell, row)
            )
        return table


def time_left(cell: Cell, row: CellRow) -> str:
    """Returns the remaining time of a running cell."""
    if row.state != "running" or not row.seconds:
        return ""
    seconds = statistics.median(row.seconds) * (cell.config.rounds - row.round)
    return str(datetime.timedelta(seconds=round(seconds)))


class CellConsole(io.StringIO):
    """File whose lines become notes of a cell."""

    def __init__(self, table: LiveTable, cell: Cell):
        super().__init__()
        self._table, self._cell = table, cell

    def write(self, text: str) -> int:
        """Notes complete lines, as consoles write them."""
        for line in filter(str.strip, text.splitlines()):
            self._table.note(f"{self._cell.name}: {line}")
        return len(text)


class CellProgress:
    """Progress of a cell, with the interface of `training.progress.Progress`."""

    def __init__(self, table: LiveTable, cell: Cell):
        self._table, self._cell = table, cell

    def round(self, r: int, seconds: float):
        """Reports round `r`, from 1, and its `seconds`."""
        recent = (*self._table.row(self._cell).seconds, seconds)[-10:]
        self._table.set(self._cell, round=r, seconds=recent)
        if len(recent) == 2:  # the first round may include compilation
            self._table.first_round(seconds)

    def evaluated(self, record: Mapping):
        """Reports a record of `metrics.jsonl`."""
        self._table.set(self._cell, accuracy=accuracy_text(record))
