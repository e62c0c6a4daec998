"""A sweep on Ray: parts are tasks, and this process watches their work directories.

Workers write the work directories themselves, on a file system that all machines share,
so a worker that dies loses the rounds since its last checkpoint and nothing else. Its
part is taken up again as long as that makes cells go on.
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
from rich.console import Console

from jaxproto.callbacks import callback_factories
from jaxproto.contrib.ray_launcher import watch, worker
from jaxproto.errors import UserError
from jaxproto.sweeps import execute, live_table, print_launcher
from jaxproto.sweeps.axes import Given, axes
from jaxproto.sweeps.execute import SweepOptions
from jaxproto.sweeps.plan import Plan, cell_status, plan, select_part
from jaxproto.sweeps.sweep import SweepResult, bytes_per_cell, result

HINT = "--launcher=ray needs Ray: pip install 'jaxproto[cluster]'"
ANSWER_TIMEOUT = 10.0  # seconds for a cluster to take a connection
POLL = 1.0  # seconds between two looks at the folders
MAX_DEATHS = (
    3  # of workers of a part, one after the other, without a checkpoint between
)
SETTINGS = ("JAX_", "JAXPROTO_", "XLA_")  # environment that workers are given


class RayOptions(NamedTuple):
    """Where the parts of a sweep run, and with what."""

    address: str = ""  # "" starts Ray on this machine; "auto", host:port
    cpus: int = 1  # cores of a part
    gpus: float = 0.0  # of a part; a fraction shares one
    parts: int = 0  # 0: as many as can run at once
    flags: Mapping[str, Any] = {}  # options of JAX, which workers are to have too


def on_ray(
    config: ml_collections.ConfigDict,
    given: Given,
    outdir: str = "",
    console: Console | None = None,
    *,
    how: SweepOptions | None = None,
    plain: ml_collections.ConfigDict | None = None,
    cluster: RayOptions | None = None,
) -> SweepResult:
    """Trains the cells of a sweep in tasks of Ray; `sweep.sweep` has the arguments.

    Raises:
      UserError: as `sweep.sweep`; of a cell that could not be trained, after all other
        parts have ended.
    """
    console, how, cluster = (
        console or Console(),
        how or SweepOptions(),
        cluster or RayOptions(),
    )
    execute.execution_mode(how.cells_at_once, jax.default_backend(), cluster.cpus)
    callback_factories(how.callbacks)  # before anything trains
    whole = plan(config, axes(config, given), outdir, plain)
    print_launcher.num_parts(whole, cluster.parts, 1)
    for line in live_table.plan_lines(whole, bytes_per_cell(whole)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    how = how._replace(cores=cluster.cpus, grace=0.0)
    with connect(cluster) as ray, live_table.LiveTable(whole, console).shown() as shown:
        n = print_launcher.num_parts(
            whole, cluster.parts, num_slots(ray, cluster, shown)
        )
        shown.note(f"{n} part(s) on Ray, {cluster.cpus} core(s) each")
        with worker.probe(whole.folder) as probe:
            job = worker.make_job(
                config, plain, given, outdir, how, flags=cluster.flags, probe=probe
            )
            wrong = Tasks(ray, job, whole, n, cluster, shown).run()
    if wrong:
        raise UserError("\n".join(wrong))
    return result(whole, console)


@contextlib.contextmanager
def connect(cluster: RayOptions) -> Iterator[Any]:
    """The module `ray`, connected.

    Raises:
      UserError: it is not installed, or there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # tells nobody of this
    try:
        import ray
    except ImportError as e:
        raise UserError(HINT) from e
    _check_address(cluster.address)
    mine = {} if cluster.address else {"include_dashboard": False}
    try:
        with warnings.catch_warnings(), _own_signals():
            # JAX warns of forks; Ray's children do nothing of JAX before they exec.
            warnings.simplefilter("ignore", RuntimeWarning)
            address, level = cluster.address or "local", logging.ERROR
            ray.init(address, log_to_driver=False, logging_level=level, **mine)
    except (ConnectionError, RuntimeError, ValueError, OSError) as e:
        why = " ".join(f"{e}".split())
        raise UserError(
            f"--ray_address={cluster.address or 'local'} cannot be joined: {why}. A "
            "cluster that asks for a token needs RAY_AUTH_MODE=token here, too."
        ) from e
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM stay with whom they are; Ray's handlers print a trace."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {told: signal.getsignal(told) for told in (signal.SIGINT, signal.SIGTERM)}
    yield
    for told, handler in before.items():
        signal.signal(told, handler or signal.SIG_DFL)


def _check_address(address: str):
    """Raises UserError where nobody listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_TIMEOUT).close()
    except (OSError, OverflowError) as e:
        raise UserError(
            f"--ray_address={address} cannot be joined: {e}. Give the address that "
            "`ray start --head` says, or auto on a machine of the cluster."
        ) from e


def num_slots(ray, cluster: RayOptions, shown: live_table.LiveTable) -> int:
    """How many parts can run at once.

    Raises:
      UserError: none on this machine. A cluster may still grow: there it is said.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    found = sum(_fit(has, cluster) for has in machines)
    if found:
        return found
    most = {k: max((has.get(k, 0) for has in machines), default=0) for k in RESOURCES}
    text = (
        f"no machine has --task_cpus={cluster.cpus} and --task_gpus={cluster.gpus:g}; "
        f"the largest has {most['CPU']:g} cores and {most['GPU']:g} GPUs"
    )
    if not cluster.address:
        raise UserError(f"{text}. Give less.")
    shown.note(f"{text}: waiting for another one")
    return 1


RESOURCES = ("CPU", "GPU")


def _fit(has: Mapping[str, float], cluster: RayOptions) -> int:
    """How many parts a machine takes at once."""
    fit = has.get("CPU", 0) // cluster.cpus
    if cluster.gpus:
        fit = min(fit, has.get("GPU", 0) // cluster.gpus)
    return int(fit)


def environment(gpus: float) -> dict[str, str]:
    """What workers have in their environment beside their machine's.

    The settings of JAX and of this package are those of this process. Without a GPU of
    their own, workers leave those of the machine alone; with a fraction of one, they
    leave the rest of its memory.
    """
    kept = {k: v for k, v in os.environ.items() if k.startswith(SETTINGS)}
    if not gpus:
        kept.setdefault("JAX_PLATFORMS", "cpu")
    elif gpus < 1:
        kept.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.2f}")
    return kept


class Tasks:
    """The parts of a sweep as tasks."""

    def __init__(
        self,
        ray,
        job: worker.RemoteJob,
        whole: Plan,
        n: int,
        cluster: RayOptions,
        shown,
    ):
        """Starts none yet.

        Args:
          shown: the board.
        """
        self._ray, self._job, self._whole, self._n = ray, job, whole, n
        self._board = shown
        self._submit = ray.remote(
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
            max_calls=1,  # a process per part: the next one finds a device empty
            max_retries=0,  # `_again` knows whether it helps
            runtime_env={"env_vars": environment(cluster.gpus)},
        )(worker.train_part).remote
        self._deaths: dict[int, tuple[int, list]] = {}
        self._running: dict[Any, int] = {}

    def run(self) -> list[str]:
        """Runs all parts to their end; what went wrong in them."""
        watched = watch.WorkdirWatcher(self._whole.cells, self._board)
        for k in range(self._n):
            self._start(k)
        wrong: dict[str, list[int]] = {}  # the same words once
        while self._running:
            refs = list(self._running)
            done, _ = self._ray.wait(refs, num_returns=len(refs), timeout=POLL)
            watched.poll()
            for ref in done:
                k = self._running.pop(ref)
                if told := self._ended(ref, k):
                    wrong.setdefault(told, []).append(k)
        watched.poll()
        return [f"part {_listed(ks)} of {self._n}: {t}" for t, ks in wrong.items()]

    def _start(self, k: int):
        self._running[self._submit(self._job, k, self._n)] = k

    def _ended(self, ref, k: int) -> str:
        """What went wrong in a part that is not started again."""
        errors = self._ray.exceptions
        try:
            told = self._ray.get(ref)
        except errors.RayTaskError as e:  # before `work` could tell
            told = str(e)
        except errors.RayError as e:
            return self._again(k, e)
        if told:
            self._board.note(f"part {k}/{self._n} has ended with an error")
        return told

    def _again(self, k: int, error: Exception) -> str:
        """Starts a part whose worker has died, unless it keeps dying."""
        now = [cell_status(cell) for cell in select_part(self._whole, k, self._n).cells]
        times, before = self._deaths.get(k, (0, now))
        times = 1 + (times if now == before else 0)
        self._deaths[k] = times, now
        why = f"{error}".partition("\n")[0] or type(error).__name__
        if times >= MAX_DEATHS:
            return (
                f"its workers died {times} times without a checkpoint between "
                f"({why}); the same command goes on from the last one."
            )
        self._board.note(f"part {k}/{self._n} is taken up again: {why}")
        self._start(k)
        return ""


def _listed(parts: list[int]) -> str:
    return ", ".join(map(str, parts))
