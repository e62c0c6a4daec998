"""Training of the cells of a sweep: in sequence, in threads, or as one program.

A cell has the run directory and the numbers of a single run: bit for bit in sequence or
in threads on CPU, up to rounding as one program (`batched.py`).
"""

import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
from rich.console import Console

from jaxproto.callbacks import callback_factories
from jaxproto.callbacks.registry import CallbackSpec
from jaxproto.devices.mesh import OneDevice, parse_devices
from jaxproto.errors import UserError
from jaxproto.lab.sweeps import batched
from jaxproto.lab.sweeps.live_table import LiveTable
from jaxproto.lab.sweeps.plan import Cell, Plan, errors_named
from jaxproto.lab.sweeps.shared_programs import SharedPrograms
from jaxproto.storage import workdir
from jaxproto.training import runner

BATCHED = "together"
POLL = 2.0  # seconds between checks of a cell that another process trains


class SweepOptions(NamedTuple):
    """Execution options of a sweep; on CPU they change no numbers."""

    cells_at_once: str = "auto"  # see `execution_mode`
    cache: bool = False  # see `runner.run`
    grace: float = 0.0  # seconds that running rounds may take after SIGTERM
    cores: int = 0  # maximum number of threads; 0: all cores
    devices: str = ""  # that share one program; see `mesh.parse_devices`
    callbacks: Sequence[CallbackSpec] = ()  # classes or names, not objects
    same_code: bool = False  # see `runner.run`


def execution_mode(cells_at_once: str, platform: str, cores: int) -> tuple[str, int]:
    """Returns the mode of execution and the maximum number of cells in it; 0 is all.

    Args:
      cells_at_once: `auto`, `one`, `threads` (a cell per core), `all` (as one program,
        as many as fit into memory), or a number (as one program).
      platform: Platform of the device, or "several" devices, which run one program.
      cores: Cores of this process; 0 is all of the machine.
    """
    cores = cores or os.cpu_count() or 1
    if cells_at_once == "auto":
        cells_at_once = "threads" if platform == "cpu" else "all"
    modes = {"one": ("threads", 1), "threads": ("threads", cores), "all": (BATCHED, 0)}
    if cells_at_once in modes:
        return modes[cells_at_once]
    if not re.fullmatch("[0-9]+", cells_at_once) or int(cells_at_once) < 1:
        raise UserError(
            f"cells_at_once is {cells_at_once!r}; it is auto, {', '.join(modes)} or a "
            "number of cells such as 4."
        )
    return BATCHED, int(cells_at_once)


def check_options(options: SweepOptions) -> tuple[str, int, OneDevice]:
    """Returns the mode of execution, the maximum number of cells, and the devices.

    Raises:
      UserError: An option is invalid, or the mode trains no cell on several devices.
    """
    layout = parse_devices(options.devices)
    several = layout.num_devices > 1
    platform = "several" if several else jax.default_backend()
    mode, max_cells = execution_mode(options.cells_at_once, platform, options.cores)
    if several and options.devices and mode != BATCHED:
        raise UserError(
            f"devices is {options.devices!r}, but with cells_at_once="
            f"{options.cells_at_once} each cell trains on one device. Cells of one "
            "program share several: give cells_at_once=all or a number, or leave "
            "devices out."
        )
    return mode, max_cells, layout


def train(plan: Plan, options: SweepOptions, table: LiveTable, console: Console):
    """Trains the cells that have not ended; `sweep.sweep` lists the errors."""
    mode, max_cells, layout = check_options(options)
    groups = [SharedPrograms(group, options.cache, console) for group in plan.groups]
    ended: set[str] = set()
    if mode == BATCHED:
        for shared in groups:
            ended |= train_batched(shared, max_cells, options, table, layout)
        max_cells = 1
    remaining = [(c, s) for s in groups for c in s.group.cells if c.name not in ended]
    in_threads(remaining, max_cells, options, table)


def train_batched(
    shared: SharedPrograms,
    max_cells: int,
    options: SweepOptions,
    table: LiveTable,
    layout: OneDevice,
) -> set[str]:
    """Trains cells of a group as one program; returns the names of ended cells.

    It skips cells that another process trains, and groups that check the wire or whose
    clients are not on the device between rounds.
    """
    exp = shared.group.exp
    if exp.check_wire or not exp.resident:
        return set()
    with contextlib.ExitStack() as stack:
        members, ended = _claim_and_restore(shared, options, table, stack)
        max_cells = min(max_cells or len(members), len(members))
        if members:
            max_cells, programs = shared.batched_programs(max_cells, layout)
        for batch in batched.group_by_schedule(members, max_cells):
            batched.train(batch, programs, max_cells, table)
            ended |= {m.cell.name for m in batch}
    return ended


def _claim_and_restore(
    shared: SharedPrograms,
    options: SweepOptions,
    table: LiveTable,
    stack: contextlib.ExitStack,
) -> tuple[list[batched.BatchedRun], set[str]]:
    """Locks the folders of a group's cells until `stack` closes; restores their runs.

    Cells that another process trains are skipped.

    Returns:
      Members that have rounds to train, and the names of ended cells.
    """
    members, ended = [], set()
    for cell in shared.group.cells:
        try:
            lock = stack.enter_context(workdir.lock_workdir(cell.path))
        except workdir.WorkdirBusy as e:
            table.busy(cell, str(e))
            continue
        start = start_of_cell(options, table, cell, lock)
        with errors_named(cell):
            summary = runner.finished_summary(start)
            if summary is None:
                restored = runner.restore_or_init(start, shared(cell))
                members.append(batched.BatchedRun(cell, *restored))
        if summary is not None:
            table.ended(cell, summary, 0.0)
            ended.add(cell.name)
    return members, ended


def in_threads(
    cells: Iterable[tuple[Cell, SharedPrograms]],
    max_cells: int,
    options: SweepOptions,
    table: LiveTable,
):
    """Trains cells in `max_cells` threads.

    Raises:
      The first error of a thread; the other threads begin no further cell.
    """
    queue, stop = deque(cells), threading.Event()

    def train_queue():
        while queue and not stop.is_set():
            try:
                cell, shared = queue.popleft()
            except IndexError:  # another thread took the last cell
                return
            try:
                train_cell(cell, shared, options, table)
            except workdir.WorkdirBusy as e:  # try it again after the other cells
                queue.append((cell, shared))
                table.busy(cell, str(e))
                stop.wait(POLL)
            except BaseException:
                stop.set()
                raise

    with ThreadPoolExecutor(max_cells) as pool:
        tasks = [pool.submit(train_queue) for _ in range(max_cells)]
    for task in tasks:
        task.result()


def start_of_cell(
    options: SweepOptions, table: LiveTable, cell: Cell, lock: workdir.WorkdirLock
) -> runner.Start:
    """Returns the arguments that start the run of a cell."""
    return runner.Start(
        cell.config,
        cell.path,
        table.console(cell),
        grace=options.grace,
        lock=lock,
        progress=partial(table.progress, cell),
        callbacks=[make() for make in callback_factories(options.callbacks)],
        same_code=options.same_code,
    )


def train_cell(
    cell: Cell, shared: SharedPrograms, options: SweepOptions, table: LiveTable
):
    """Trains a cell unless it has ended."""
    begin = time.perf_counter()
    with errors_named(cell), workdir.lock_workdir(cell.path) as lock:
        start = start_of_cell(options, table, cell, lock)
        summary = runner.finished_summary(start)
        if summary is None:
            summary = runner.train(start, shared(cell))
    table.ended(cell, summary, time.perf_counter() - begin)
