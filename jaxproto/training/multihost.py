"""Start and end of a run by several processes, through `jax.distributed`.

If a process ends, the next collective operation of the others fails; if it hangs or is
cut off, its heartbeats are missing after `TIMEOUT` seconds. The others end with one
line. The run resumes from its last checkpoint, with any number of processes.
"""

import contextlib
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import jax
from jax.experimental import multihost_utils

from jaxproto.errors import UserError
from jaxproto.training import processes, signals

AUTO = "auto"
LOST = (
    "another process of this run has ended, or cannot be reached; start all of them "
    "again, and the run goes on from its last checkpoint"
)
TWICE = "another process of this run has the same --process; give each its own number"
PEERS = "Gloo|NCCL|[Cc]onnection|UNAVAILABLE|DEADLINE_EXCEEDED|[Cc]oordination"
TIMEOUT = 30  # seconds without a heartbeat until a process counts as ended
MEETING = 120  # seconds within which all processes must start
NOTICE = 10.0  # seconds until a process prints that it waits for the others
WATCH = 5.0  # seconds between two checks for lost processes
_ended = threading.Event()  # of the run


def initialize(coordinator: str, processes: int = 0, process: int = -1):
    """Connects this process to the others, before JAX looks for its devices.

    Args:
      coordinator: HOST:PORT of the first process; "auto" where JAX detects it (SLURM,
        TPU pods, Open MPI, Kubernetes).
      processes: Number of processes.
      process: Index of this process, from 0.

    Raises:
      UserError: The numbers do not fit, or the processes cannot connect.
    """
    options: dict[str, Any] = {}
    if coordinator != AUTO:
        if processes < 1 or not 0 <= process < processes:
            raise UserError(
                f"--coordinator={coordinator} with --processes={processes} and "
                f"--process={process}; say how many processes there are and which one "
                "this is, from 0."
            )
        _check_address(coordinator)
        options = {
            "coordinator_address": coordinator,
            "num_processes": processes,
            "process_id": process,
        }
    if jax.config.values["jax_platforms"] == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # Without recoverability, a peer's end aborts this process in C++ with a page of
        # text. Gloo raises an error at once; on other devices JAX must abort, or it
        # would wait.
        jax.config.update("jax_enable_recoverability", True)
    # JAX's own handler of SIGTERM would replace that of `signals`.
    jax.config.update("jax_enable_preemption_service", False)
    place = "" if coordinator == AUTO else f" at {coordinator}"
    text = f"waiting for the other processes{place} (at most {MEETING} s)\n"
    notice = threading.Timer(NOTICE, sys.stderr.write, [text])
    notice.daemon = True
    notice.start()
    try:
        jax.distributed.initialize(
            **options,
            initialization_timeout=MEETING,
            heartbeat_timeout_seconds=TIMEOUT,
            shutdown_timeout_seconds=TIMEOUT,
        )
    except (RuntimeError, ValueError) as e:
        why = " ".join(f"{e}".split())[:300]
        hint = " Say HOST:PORT, --processes and --process." if not options else ""
        raise UserError(
            f"--coordinator={coordinator}: the processes did not meet ({why}).{hint}"
        ) from e
    finally:
        notice.cancel()
    if jax.config.values["jax_enable_recoverability"]:
        threading.Thread(target=_watch, daemon=True).start()


def _watch():
    """Ends this process with one line when another process is frozen or cut off.

    Gloo would wait for the other process for ever. All processes of a run call this
    function at the same time.
    """
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # without a coordinator
        while not _ended.wait(WATCH):
            try:
                with multihost_utils.live_devices(jax.devices()) as alive:
                    lost = len(alive) < jax.device_count()
            except multihost_utils.ProcessFailureError:
                lost = True
            if lost and not _ended.is_set():
                _exit(f"error: {LOST}.")


def _check_address(coordinator: str):
    """Raises UserError unless an address is HOST:PORT and the host is known."""
    match = re.fullmatch(r"(.+):([0-9]{1,5})", coordinator)
    if match is None or not 0 < int(match[2]) < 2**16:
        raise UserError(
            f"--coordinator={coordinator}; it is HOST:PORT with a port from 1 to "
            "65535, such as 10.0.0.1:9000."
        )
    try:
        socket.getaddrinfo(match[1].strip("[]"), int(match[2]))
    except (OSError, UnicodeError) as e:
        raise UserError(
            f"--coordinator={coordinator}: the host {match[1]} is not known here "
            f"({getattr(e, 'strerror', e)}). Say the address of the first process."
        ) from e


def run_together(train: Callable[[], bool]) -> bool:
    """Runs `train` in all processes, which end together; returns its result.

    Only the first process returns; the others need its coordinator until they have
    ended. If one process ends early, the others end at once with one line, because JAX
    would wait for it at the end of Python.
    """
    if not processes.is_multihost():
        return train()
    ok, stopped = False, None
    try:
        try:
            ok = train()
        except signals.StoppedBySignal as e:
            stopped = e
        processes.barrier("the run has ended")
    except UserError as e:
        _exit(f"error: {e}")
    except (jax.errors.JaxRuntimeError, ValueError) as e:  # by platform
        why = " ".join(f"{e}".split())[:200]
        if not re.search(PEERS, why):
            raise
        lost = TWICE if "ALREADY_EXISTS" in why else LOST
        _exit(f"error: {lost} ({why}).")
    _ended.set()
    time.sleep(1.0 if processes.is_primary() else 0.0)
    if stopped is not None:
        raise stopped
    if not processes.is_primary():
        sys.stdout.flush()
        os._exit(0 if ok else 1)
    return ok


def _exit(line: str) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
    os._exit(1)
