"""What a person sees of a sweep: the plan, a live table of cells, a line per end."""

import contextlib
import datetime
import io
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from jaxproto.summary import progress_lines
from jaxproto.sweeps.plan import FINAL_STATUSES, Cell, Plan, cell_status
from jaxproto.training.progress import accuracy_text

MAX_ROWS = 20  # cells that the live table shows; of more, those that are running


class CellRow(NamedTuple):
    """What is known of a cell."""

    state: str  # new, round 3, running, finished, diverged, busy
    round: int = 0
    accuracy: str = ""
    seconds: tuple[float, ...] = ()  # of the last rounds


def plan_lines(plan: Plan, bytes_each: int) -> list[str]:
    """The plan: how many cells, programs and finished ones, and their memory."""
    states = [cell_status(cell) for cell in plan.cells]
    begun = sum(state.startswith("round") for state in states)
    done = sum(state in FINAL_STATUSES for state in states)
    axes = " x ".join(f"{len(a.values)} {'+'.join(a.fields)}" for a in plan.axes)
    sizes = ", ".join(str(len(group.cells)) for group in plan.groups)
    whole = math.prod(len(axis.values) for axis in plan.axes)
    part = "" if len(plan.cells) == whole else f"{len(plan.cells)} of "
    return [
        f"sweep: {part}{whole} cells = {axes}",
        f"{len(plan.groups)} set(s) of programs, of {sizes} cells",
        f"{done} ended before, {begun} begun, {len(states) - done - begun} new",
        f"about {bytes_each / 2**20:,.0f} MiB for the data and state of one cell",
        f"table and pictures: {plan.folder}",
    ]


class LiveTable:
    """The cells of a sweep as they train. Made by `shown`."""

    def __init__(self, plan: Plan, console: Console):
        """Knows what is there already."""
        self._plan, self._console = plan, console
        self._refresh: Callable[[], None] = lambda: None
        self._told = False
        self._rows = {cell.name: CellRow(cell_status(cell)) for cell in plan.cells}

    def console(self, cell: Cell) -> Console:
        """Where the run of a cell says what is to be known: it becomes notes."""
        return Console(file=CellConsole(self, cell), force_terminal=False)

    @contextlib.contextmanager
    def progress(
        self, cell: Cell, total: int, start: int, console: Console
    ) -> Iterator["CellProgress"]:
        """The rounds of a cell; as `training.progress.progress`."""
        self.set(cell, state="running", round=start)
        yield CellProgress(self, cell)

    def set(self, cell: Cell, **what):
        """Changes the row of a cell; only one thread tells of a cell."""
        self._rows[cell.name] = self._rows[cell.name]._replace(**what)
        self._refresh()

    def row(self, cell: Cell) -> CellRow:
        """What is known of a cell."""
        return self._rows[cell.name]

    def first_round(self, seconds: float):
        """Says once how long the rounds of all cells take, one after the other."""
        rows = [(c.config.rounds, self._rows[c.name]) for c in self._plan.cells]
        left = sum(n - row.round for n, row in rows if row.state not in FINAL_STATUSES)
        if self._told or not left:
            return
        self._told = True
        time = datetime.timedelta(seconds=round(seconds * left))
        one_by_one = f"{time} for {left} rounds one after the other"
        self.note(f"{seconds:.3g} s a round: {one_by_one}")

    def busy(self, cell: Cell):
        """Another process trains it."""
        self.set(cell, state="busy elsewhere")

    def ended(self, cell: Cell, summary: Mapping, seconds: float):
        """A cell has ended, now or before."""
        rules = summary["rules"]
        best = {r: {"pooled": of["pooled"]["best"]} for r, of in rules.items()}
        text = accuracy_text({"rules": best})
        self.set(cell, state=summary["status"], round=summary["rounds"], accuracy=text)
        self.note(f"{cell.name}: {summary['status']}, best {text}, {seconds:.1f} s")

    def note(self, text: str):
        """One line that stays, above the table."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def shown(self) -> Iterator["LiveTable"]:
        """Live on a terminal; elsewhere only notes."""
        with progress_lines.live(self._console, self.table) as self._refresh:
            yield self

    def table(self) -> Table:
        """A row per cell: round, accuracy so far, time left."""
        table, few = Table(show_edge=False), len(self._plan.cells) <= MAX_ROWS
        for name in ("cell", "state", "round", "accuracy so far", "left"):
            table.add_column(name, no_wrap=True)
        for cell in self._plan.cells:
            row = self._rows[cell.name]
            if table.row_count == MAX_ROWS or not (few or row.state == "running"):
                continue
            rounds = f"{row.round}/{cell.config.rounds}"
            table.add_row(
                cell.name, row.state, rounds, row.accuracy, time_left(cell, row)
            )
        return table


def time_left(cell: Cell, row: CellRow) -> str:
    """Time that a running cell still takes."""
    if row.state != "running" or not row.seconds:
        return ""
    seconds = statistics.median(row.seconds) * (cell.config.rounds - row.round)
    return str(datetime.timedelta(seconds=round(seconds)))


class CellConsole(io.StringIO):
    """A file whose lines are notes of a cell."""

    def __init__(self, board: LiveTable, cell: Cell):
        """Tells the board."""
        super().__init__()
        self._board, self._cell = board, cell

    def write(self, text: str) -> int:
        """Takes whole lines, as consoles write them."""
        for line in filter(str.strip, text.splitlines()):
            self._board.note(f"{self._cell.name}: {line}")
        return len(text)


class CellProgress:
    """The rounds of one cell, as `training.progress.Progress` is told of them."""

    def __init__(self, board: LiveTable, cell: Cell):
        """Tells the board."""
        self._board, self._cell = board, cell

    def round(self, r: int, seconds: float):
        """Round `r` is done (the first is 1) and took `seconds`."""
        recent = (*self._board.row(self._cell).seconds, seconds)[-10:]
        self._board.set(self._cell, round=r, seconds=recent)
        if len(recent) == 2:  # the first one may still compile something
            self._board.first_round(seconds)

    def evaluated(self, record: Mapping):
        """A record of `metrics.jsonl` was measured."""
        self._board.set(self._cell, accuracy=accuracy_text(record))

    def note(self, text: str):
        """One line that stays."""
        self._board.note(f"{self._cell.name}: {text}")
