"""Data and compiled programs that the cells of a group share."""

import contextlib
import threading
from collections.abc import Iterator
from functools import partial

import jax
from rich.console import Console

from jaxproto.devices import mesh
from jaxproto.devices.mesh import OneDevice
from jaxproto.lab.sweeps.plan import Cell, ProgramGroup, experiment
from jaxproto.summary import progress_lines
from jaxproto.summary.run_summary import save_partition
from jaxproto.training import compiler, program_cache, runner, xla_cache
from jaxproto.training.programs import Programs


class SharedPrograms:
    """Data and programs of a group, compiled for the first cell that needs them."""

    def __init__(self, group: ProgramGroup, cache: bool, console: Console):
        """Compiles nothing yet."""
        self.group, self._cache, self._console = group, cache, console
        self._lock = threading.Lock()
        self._prepared: runner.PreparedRun | None = None

    def prepared(self) -> runner.PreparedRun:
        """Returns the programs, with the experiment of the first cell; thread-safe."""
        with self._lock:
            if self._prepared is None:
                with self._compilation() as wrap:
                    self._prepared = runner.compile_programs(
                        self._console, self.group.exp, wrap
                    )
        return self._prepared

    def __call__(self, cell: Cell) -> runner.PreparedRun:
        """Returns the prepared run of a cell, in place of `runner.prepare`."""
        run = self.prepared()
        exp = experiment(run.exp, cell)
        save_partition(exp, cell.path)
        return run._replace(exp=exp)

    def batched_programs(
        self, max_cells: int, layout: OneDevice
    ) -> tuple[int, Programs]:
        """Compiles programs of as many federations as fit into memory.

        Each device of the layout gets the same number of federations.

        Returns:
          The number of federations of a program, and the programs.
        """
        run, num_devices = self.prepared(), layout.num_devices
        per_device = mesh.rows_per_device(max_cells, num_devices)
        limit = compiler.memory_limit(run.exp)
        while True:
            many = per_device * num_devices
            with self._compilation() as wrap:
                programs, _ = compiler.compile_all(
                    run.exp, run.examples, wrap, many=many, over=layout
                )
            required = compiler.required_bytes(jax.tree.leaves(programs))
            if required <= limit or per_device == 1:
                return many, programs
            per_device = -(-per_device // 2)

    @contextlib.contextmanager
    def _compilation(self) -> Iterator[program_cache.ProgramWrapper]:
        """Locks compilation, and yields the wrapper that caches programs.

        Other processes wait, and load the programs from the cache.
        """
        folder, config = xla_cache.enable_xla_cache(), self.group.cells[0].config
        say = partial(progress_lines.say, self._console)
        with program_cache.compile_lock(folder, config, self.group.exp, say):
            cached = folder if self._cache else None
            yield program_cache.disk_cache(cached, config, self.group.exp)
