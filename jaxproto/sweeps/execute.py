"""Trains the cells of a sweep: one after the other, in threads, or as one program.

Every cell has the work directory of a run alone, and its numbers: on CPU, where cells
run one by one or in threads, bit for bit. As one program (`together.py`) they are those
of other forms of execution, to rounding.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import NamedTuple

import jax
from rich.console import Console

from jaxproto.config import build
from jaxproto.errors import UserError
from jaxproto.storage import workdir
from jaxproto.sweeps import together
from jaxproto.sweeps.board import Board
from jaxproto.sweeps.plan import Cell, Group, Plan, experiment
from jaxproto.training import compilation, program_cache, runner

MODES = ("auto", "one", "threads", "all")
POLL = 2.0  # seconds until a cell that another process trains is looked at again


class How(NamedTuple):
    """How a sweep is run, which changes none of its numbers on CPU."""

    cells_at_once: str = "auto"
    cache: program_cache.ProgramCache = program_cache.no_cache
    grace: float = 0.0


def mode(cells_at_once: str, platform: str) -> tuple[str, int]:
    """The form of execution, and how many cells are in it at most.

    Args:
      cells_at_once: `auto`, `one`, `threads` (a cell per core), `all` (as one program,
        as many as fit into memory), or a number (as one program).

    Raises:
      UserError: it is something else.
    """
    cores = os.cpu_count() or 1
    if cells_at_once == "auto":
        cells_at_once = "threads" if platform == "cpu" else "all"
    if cells_at_once == "one":
        return "threads", 1
    if cells_at_once == "threads":
        return "threads", cores
    if cells_at_once == "all":
        return "together", 0
    if not cells_at_once.isdecimal() or int(cells_at_once) < 1:
        raise UserError(
            f"cells_at_once is {cells_at_once!r}; it is {', '.join(MODES)} or a number "
            "of cells such as 4."
        )
    return "together", int(cells_at_once)


def train(plan: Plan, how: How, board: Board, console: Console) -> dict[str, dict]:
    """Trains what is not finished yet.

    Returns:
      {name of the cell: its summary}, in the order of the plan.

    Raises:
      UserError: a file cannot be written; the cells that are finished stay.
      stopping.Stopped: SIGTERM came, and the running rounds are saved.
    """
    kind, most = mode(how.cells_at_once, jax.default_backend())
    programs = [Shared(group, how.cache, console) for group in plan.groups]
    if kind == "together":
        found = {}
        for shared in programs:
            found |= together.train(shared, most, how.grace, board)
    else:
        found = in_threads(programs, most, how.grace, board)
    return {cell.name: found[cell.name] for cell in plan.cells}


class Shared:
    """Data and compiled programs of a group, made when the first cell needs them."""

    def __init__(self, group: Group, cache: program_cache.ProgramCache, console):
        """Compiles nothing yet."""
        self.group, self._cache, self._console = group, cache, console
        self._lock, self._made = threading.Lock(), None

    def __call__(self, start: runner.Start) -> runner.Ready:
        """What the run of a cell begins with; as `runner.prepare`."""
        with self._lock:
            if self._made is None:
                exp = self.group.exp
                wrap = self._cache(compilation.keep_compiled(), start.config, exp)
                examples = build.examples(exp.dataset)
                self._made = runner.compiled(start, exp, examples, wrap, self._console)
        own = next(c for c in self.group.cells if c.path == start.path)
        return self._made._replace(exp=experiment(self._made.exp, own))


def in_threads(
    programs: Sequence[Shared], most: int, grace: float, board: Board
) -> dict[str, dict]:
    """Cells in the order of their groups, `most` at a time."""
    waiting = deque(
        (cell, shared) for shared in programs for cell in shared.group.cells
    )
    found: dict[str, dict] = {}
    stop = threading.Event()

    def work():
        while not stop.is_set():
            try:
                cell, shared = waiting.popleft()
            except IndexError:
                return
            try:
                found[cell.name] = one(cell, shared, grace, board)
            except workdir.Busy:  # of another process: the others first
                waiting.append((cell, shared))
                board.busy(cell)
                stop.wait(0 if len(waiting) > 1 else POLL)
            except BaseException:
                stop.set()
                raise

    with ThreadPoolExecutor(most) as pool:
        tasks = [pool.submit(work) for _ in range(most)]
        wait(tasks)
    for task in tasks:
        task.result()
    return found


def one(cell: Cell, prepare: Callable, grace: float, board: Board) -> dict:
    """The summary of one cell, trained now unless it is finished."""
    clock = time.perf_counter()
    summary = runner.finished_or(
        cell.config,
        cell.path,
        board.console(cell),
        prepare,
        grace,
        partial(board.progress, cell),
    )
    board.ended(cell, summary, time.perf_counter() - clock)
    return summary
