"""Data and compiled programs that the cells of a group share."""

import threading

import jax
from rich.console import Console

from jaxproto import mesh
from jaxproto.experiment import build
from jaxproto.mesh import ONE, OneDevice
from jaxproto.summary import run_summary as summaries
from jaxproto.sweeps.plan import ProgramGroup, experiment
from jaxproto.training import compiler, device_memory, program_cache, runner, xla_cache
from jaxproto.training.programs import Programs


class SharedPrograms:
    """Made when the first cell of a group needs them."""

    def __init__(
        self, group: ProgramGroup, cache: program_cache.ProgramCache, console: Console
    ):
        """Compiles nothing yet."""
        self.group, self._cache, self._console = group, cache, console
        self._lock = threading.Lock()
        self._made: runner.PreparedRun | None = None

    def ready(self) -> runner.PreparedRun:
        """With the experiment of the first cell; several threads may ask."""
        with self._lock:
            if self._made is None:
                exp = self.group.exp
                examples = build.examples(exp.dataset)
                with self._first():
                    made = runner.compile_programs(
                        self._console, exp, examples, self._wrap()
                    )
                self._made = made
        return self._made

    def __call__(self, start: runner.Start) -> runner.PreparedRun:
        """What the run of a cell begins with; in place of `runner.prepare`."""
        made = self.ready()
        own = next(c for c in self.group.cells if c.path == start.path)
        exp = experiment(made.exp, own)
        summaries.save_partition(exp, start.path)
        return made._replace(exp=exp)

    def batched_programs(
        self, most: int, layout: OneDevice = ONE
    ) -> tuple[int, Programs]:
        """Programs of as many federations as fit into memory; of how many, and they.

        Args:
          most: federations at most.
          layout: devices, which have the same number each.
        """
        made, number = self.ready(), layout.num_devices
        each, wrap = mesh.rows_per_device(most, number), self._wrap()
        wrap = (
            wrap if layout is ONE else program_cache.uncached
        )  # exported ones are of one
        limit = (
            device_memory.available_bytes(jax.local_devices()[0])
            if made.exp.fit
            else None
        )
        while True:
            with self._first():
                programs, _ = compiler.compile_all(
                    made.exp, made.examples, wrap, many=each * number, over=layout
                )
            need = device_memory.required_bytes(jax.tree.leaves(programs))
            if limit is None or need <= limit or each == 1:
                return each * number, programs
            each = -(-each // 2)

    def _first(self):
        """Other processes of the same sweep wait, and find programs in the cache."""
        compiled_in, cell = xla_cache.enable_xla_cache(), self.group.cells[0]
        return program_cache.compile_lock(compiled_in, cell.config, self.group.exp)

    def _wrap(self) -> program_cache.ProgramWrapper:
        compiled_in, cell = xla_cache.enable_xla_cache(), self.group.cells[0]
        return self._cache(compiled_in, cell.config, self.group.exp)
