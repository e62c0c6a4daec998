"""Trains the cells of a sweep: one after the other, in threads, or as one program.

Every cell has the work directory of a run alone, and its numbers: on CPU, where cells
run one by one or in threads, bit for bit. As one program (`together.py`) they are those
of other forms of execution, to rounding.
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
from rich.console import Console

from jaxproto import mesh as devices
from jaxproto.callbacks import Callback, callback_factories
from jaxproto.callbacks.registry import CallbackSpec
from jaxproto.errors import UserError
from jaxproto.experiment.cohorts import OFF_DEVICE
from jaxproto.mesh import ONE, OneDevice
from jaxproto.storage import workdir
from jaxproto.sweeps import batched
from jaxproto.sweeps.live_table import LiveTable
from jaxproto.sweeps.plan import Cell, Plan, errors_named
from jaxproto.sweeps.shared_programs import SharedPrograms
from jaxproto.training import program_cache, runner

BATCHED = "together"
MODES = ("auto", "one", "threads", "all")
POLL = 2.0  # seconds until a cell that another process trains is looked at again


class SweepOptions(NamedTuple):
    """How a sweep is run, which changes none of its numbers on CPU."""

    cells_at_once: str = "auto"  # see `execution_mode`
    cache: program_cache.ProgramCache = program_cache.no_cache
    grace: float = 0.0  # seconds that running rounds may take after SIGTERM
    cores: int = 0  # threads with a cell each at most; 0: as many as there are cores
    devices: str = (
        ""  # that share cells of one program; see `jaxproto.mesh.parse_devices`
    )
    callbacks: Sequence[
        CallbackSpec
    ] = ()  # `jaxproto.run` has them; classes, not objects

    def made(self) -> list[Callback]:
        """The callbacks of a cell, which has its own."""
        return [make() for make in callback_factories(self.callbacks)]


def execution_mode(
    cells_at_once: str, platform: str, cores: int = 0
) -> tuple[str, int]:
    """The form of execution, and how many cells are in it at most; 0 is all.

    Args:
      cells_at_once: `auto`, `train_cell`, `threads` (a cell per core), `all` (as one
        program, as many as fit into memory), or a number (as one program).
      platform: of the device; on several, cells are one program.
      cores: of this process; 0 is all of the machine.

    Raises:
      UserError: it is something else.
    """
    cores = cores or os.cpu_count() or 1
    if cells_at_once == "auto":
        cells_at_once = "threads" if platform == "cpu" else "all"
    named = {"one": ("threads", 1), "threads": ("threads", cores), "all": (BATCHED, 0)}
    if cells_at_once in named:
        return named[cells_at_once]
    if not cells_at_once.isdecimal() or int(cells_at_once) < 1:
        raise UserError(
            f"cells_at_once is {cells_at_once!r}; it is {', '.join(MODES)} or a number "
            "of cells such as 4."
        )
    return BATCHED, int(cells_at_once)


def train(plan: Plan, how: SweepOptions, board: LiveTable, console: Console):
    """Trains what has not ended yet; see `sweep.sweep` for errors."""
    layout = devices.parse_devices(how.devices)
    platform = "several" if layout.num_devices > 1 else jax.default_backend()
    kind, most = execution_mode(how.cells_at_once, platform, how.cores)
    groups = [SharedPrograms(group, how.cache, console) for group in plan.groups]
    ended: set[str] = set()
    if kind == BATCHED:
        for shared in groups:
            ended |= train_batched(shared, most, how, board, layout)
        most = 1
    left = [(c, s) for s in groups for c in s.group.cells if c.name not in ended]
    in_threads(left, most, how, board)


def train_batched(
    shared: SharedPrograms,
    most: int,
    how: SweepOptions,
    board: LiveTable,
    layout: OneDevice = ONE,
) -> set[str]:
    """Cells of a group as one program, `most` at a time; the names of those done.

    Cells that another process trains are left out, and groups that check the wire or
    whose clients are not on the device between rounds.
    """
    exp = shared.group.exp
    if exp.check_wire or exp.store in OFF_DEVICE:
        return set()
    with contextlib.ExitStack() as stack:
        begun = partial(
            batched.claim_and_restore, shared, how.grace, how.made, board, stack
        )
        members, ended = begun(shared.group.cells)
        most = min(most or len(members), len(members))
        if members:
            most, programs = shared.batched_programs(most, layout)
        for batch in batched.group_by_schedule(members, most):
            batched.train(batch, programs, most, board)
            ended |= {m.cell.name for m in batch}
    return ended


def in_threads(
    cells: Iterable[tuple[Cell, SharedPrograms]],
    most: int,
    how: SweepOptions,
    board: LiveTable,
):
    """Cells one after the other, in `most` threads.

    Raises:
      The first error of a thread; the others end after their round.
    """
    waiting, stop = deque(cells), threading.Event()

    def work():
        while waiting and not stop.is_set():
            try:
                cell, shared = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                train_cell(cell, shared, how, board)
            except workdir.WorkdirBusy:  # the others first
                waiting.append((cell, shared))
                board.busy(cell)
                stop.wait(POLL)
            except BaseException:
                stop.set()
                raise

    with ThreadPoolExecutor(most) as pool:
        tasks = [pool.submit(work) for _ in range(most)]
    for task in tasks:
        task.result()


def train_cell(cell: Cell, shared: SharedPrograms, how: SweepOptions, board: LiveTable):
    """Trains one cell, unless it has ended."""
    clock, console = time.perf_counter(), board.console(cell)
    shown = partial(board.progress, cell)
    with errors_named(cell), workdir.lock_workdir(cell.path) as claimed:
        start = runner.Start(
            cell.config,
            cell.path,
            console,
            grace=how.grace,
            lock=claimed,
            progress=shown,
            callbacks=how.made(),
        )
        summary = runner.finished_summary(start)
        if summary is None:
            summary = runner.train(start, shared(start))
    board.ended(cell, summary, time.perf_counter() - clock)
