"""Launcher of a sweep on Ray: each part is a task that writes run directories.

This process watches the run directories, which are on a file system that all machines
share. A worker that dies loses only the rounds since its last checkpoint. Its part is
restarted as long as restarts make progress.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import ml_collections

from jaxproto.callbacks import callback_factories
from jaxproto.errors import UserError
from jaxproto.lab.sweeps import execute, live_table, print_launcher
from jaxproto.lab.sweeps.axes import AxesSpec, parse_axes
from jaxproto.lab.sweeps.execute import SweepOptions
from jaxproto.lab.sweeps.plan import Plan, cell_status, plan, select_part
from jaxproto.lab.sweeps.ray_launcher import watch, worker
from jaxproto.lab.sweeps.sweep import SweepResult, bytes_per_cell, result
from jaxproto.summary.progress_lines import make_console, say

HINT = "--launcher=ray needs Ray: pip install 'jaxproto[cluster]'"
CONNECT_TIMEOUT = 10.0  # seconds to connect to a cluster
POLL = 1.0  # seconds between checks of the run directories
MAX_DEATHS = 3  # successive workers of a part that die without a new checkpoint
SETTINGS = ("JAX_", "JAXPROTO_", "XLA_")  # prefixes of variables that workers inherit


class RayOptions(NamedTuple):
    """Cluster and resources of the parts of a sweep."""

    address: str = ""  # "" starts Ray on this machine; "auto", host:port
    cpus: int = 1  # cores of a part
    gpus: float = 0.0  # of a part; a fraction shares one
    parts: int = 0  # 0 takes as many as can run at once
    flags: Mapping[str, Any] = {}  # options of JAX for workers


def on_ray(
    config: ml_collections.ConfigDict,
    axes: AxesSpec,
    outdir: str,
    *,
    how: SweepOptions,
    plain: ml_collections.ConfigDict,
    cluster: RayOptions,
) -> SweepResult:
    """Trains the cells of a sweep in tasks of Ray, with the arguments of `sweep.sweep`.

    Raises:
      UserError: as in `sweep.sweep`; if a cell fails, after all other parts have ended.
    """
    console = make_console()
    execute.execution_mode(how.cells_at_once, jax.default_backend(), cluster.cpus)
    callback_factories(how.callbacks)  # before anything trains
    whole = plan(config, parse_axes(config, axes), outdir, plain, how.same_code)
    print_launcher.num_parts(whole, cluster.parts, 1)
    for line in live_table.plan_lines(whole, bytes_per_cell(whole)):
        say(console, line)
    how = how._replace(cores=cluster.cpus, grace=0.0)
    with connect(cluster) as ray, live_table.LiveTable(whole, console).live() as table:
        n = print_launcher.num_parts(
            whole, cluster.parts, num_slots(ray, cluster, table)
        )
        table.note(f"{n} part(s) on Ray, {cluster.cpus} core(s) each")
        with worker.probe(whole.folder) as probe:
            job = worker.RemoteJob(
                config=config.to_dict(),
                plain=plain.to_dict(),
                axes=axes,
                outdir=outdir,
                how=how,
                flags=dict(cluster.flags),
                folder=os.getcwd(),
                probe=str(probe.absolute()),
            )
            errors = Tasks(ray, job, whole, n, cluster, table).run()
    if errors:
        raise UserError("\n".join(errors))
    return result(whole, console)


@contextlib.contextmanager
def connect(cluster: RayOptions) -> Iterator[Any]:
    """Yields the connected module `ray`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError as e:
        raise UserError(HINT) from e
    _check_address(cluster.address)
    options = {} if cluster.address else {"include_dashboard": False}
    try:
        with warnings.catch_warnings(), _keep_signal_handlers():
            # JAX warns of forks; children of Ray use no JAX before they exec.
            warnings.simplefilter("ignore", RuntimeWarning)
            ray.init(
                cluster.address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **options,
            )
    except (ConnectionError, RuntimeError, ValueError, OSError) as e:
        reason = " ".join(f"{e}".split())
        raise UserError(
            f"--ray_address={cluster.address or 'local'} cannot be joined: {reason}. A "
            "cluster that asks for a token needs RAY_AUTH_MODE=token here, too."
        ) from e
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Restores the handlers of SIGINT and SIGTERM, since those of Ray print a trace."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _check_address(address: str):
    """Raises UserError if no cluster listens; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as e:
        raise UserError(
            f"--ray_address={address} cannot be joined: {e}. Give the address that "
            "`ray start --head` says, or auto on a machine of the cluster."
        ) from e


def num_slots(ray, cluster: RayOptions, table: live_table.LiveTable) -> int:
    """Returns the number of parts that can run at once; 1 if a cluster must grow."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    slots = sum(_num_fitting(resources, cluster) for resources in machines)
    if slots:
        return slots
    cores, gpus = (
        max((m.get(k, 0) for m in machines), default=0) for k in ("CPU", "GPU")
    )
    text = (
        f"no machine has --task_cpus={cluster.cpus} and --task_gpus={cluster.gpus:g}; "
        f"the largest has {cores:g} cores and {gpus:g} GPUs"
    )
    if not cluster.address:
        raise UserError(f"{text}. Give less.")
    table.note(f"{text}: waiting for another one")
    return 1


def _num_fitting(resources: Mapping[str, float], cluster: RayOptions) -> int:
    """Returns the number of parts that fit on a machine."""
    count = resources.get("CPU", 0) // cluster.cpus
    if cluster.gpus:
        # 1e-6: 1.0 / 0.1 has ten parts, of which `//` counts nine
        count = min(count, resources.get("GPU", 0) / cluster.gpus + 1e-6)
    return int(count)


def environment(gpus: float) -> dict[str, str]:
    """Returns the environment variables that workers inherit from this process.

    They are settings of JAX and of this package. Workers without GPUs use the CPU, and
    those with a fraction of a GPU use that fraction of its memory.
    """
    variables = {k: v for k, v in os.environ.items() if k.startswith(SETTINGS)}
    if not gpus:
        variables.setdefault("JAX_PLATFORMS", "cpu")
    elif gpus < 1:
        variables.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.2f}")
    return variables


class Tasks:
    """Parts of a sweep as tasks of Ray."""

    def __init__(
        self,
        ray,
        job: worker.RemoteJob,
        whole: Plan,
        n: int,
        cluster: RayOptions,
        table,
    ):
        """Prepares the tasks; starts none."""
        self._ray, self._job, self._whole, self._n = ray, job, whole, n
        self._table = table
        self._submit = ray.remote(
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
            max_calls=1,  # a process per part, so that device memory is freed
            max_retries=0,  # `_restart` decides
            runtime_env={"env_vars": environment(cluster.gpus)},
        )(worker.train_part).remote
        self._deaths: dict[int, tuple[int, list]] = {}
        self._running: dict[Any, int] = {}

    def run(self) -> list[str]:
        """Runs all parts to their end; returns their errors."""
        watcher = watch.WorkdirWatcher(self._whole.cells, self._table)
        for k in range(self._n):
            self._start(k)
        errors: dict[str, list[int]] = {}  # parts by error
        while self._running:
            refs = list(self._running)
            done, _ = self._ray.wait(refs, num_returns=len(refs), timeout=POLL)
            watcher.poll()
            for ref in done:
                k = self._running.pop(ref)
                if error := self._error_of(ref, k):
                    errors.setdefault(error, []).append(k)
        watcher.poll()
        parts = {", ".join(map(str, ks)): error for error, ks in errors.items()}
        return [f"part {ks} of {self._n}: {error}" for ks, error in parts.items()]

    def _start(self, k: int):
        self._running[self._submit(self._job, k, self._n)] = k

    def _error_of(self, ref, k: int) -> str:
        """Returns the error of an ended part; "" if it succeeded or restarts."""
        errors = self._ray.exceptions
        try:
            error = self._ray.get(ref)
        except errors.RayTaskError as e:  # raised outside of `train_part`
            error = str(e)
        except errors.RayError as e:
            return self._restart(k, e)
        if error:
            self._table.note(f"part {k}/{self._n} has ended with an error")
        return error

    def _restart(self, k: int, error: Exception) -> str:
        """Restarts a part whose worker died; returns an error if it keeps dying."""
        part = select_part(self._whole, k, self._n)
        statuses = [cell_status(cell) for cell in part.cells]
        deaths, before = self._deaths.get(k, (0, statuses))
        deaths = 1 + (deaths if statuses == before else 0)
        self._deaths[k] = deaths, statuses
        reason = f"{error}".partition("\n")[0] or type(error).__name__
        if deaths >= MAX_DEATHS:
            return (
                f"its workers died {deaths} times without a checkpoint between "
                f"({reason}); the same command goes on from the last one."
            )
        self._table.note(f"part {k}/{self._n} is taken up again: {reason}")
        self._start(k)
        return ""
