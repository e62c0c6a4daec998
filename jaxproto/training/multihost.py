"""Runs by several processes, on one machine or many, through `jax.distributed`.

Every process runs the same program with its own devices, and has the rows of its
clients on them. The first process (the primary) has the work directory. The others
write into temporary folders and receive what the primary reads. All processes read
values from the devices of others (losses, uploads, accuracies, a checkpoint) at the
same time.

If a process ends, the next collective operation of the others fails; if it hangs or is
cut off, its heartbeats are missing after `TIMEOUT` seconds. The others end with one
line. The run resumes from its last checkpoint, with any number of processes.
"""

import contextlib
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import OFF_DEVICE
from jaxproto.io import atomic
from jaxproto.training import signals
from jaxproto.types import Tree, is_key

AUTO = "auto"
LOST = (
    "another process of this run has ended, or cannot be reached; start all of them "
    "again, and the run goes on from its last checkpoint"
)
TWICE = "another process of this run has the same --process; give each its own number"
PEERS = "Gloo|NCCL|[Cc]onnection|UNAVAILABLE|DEADLINE_EXCEEDED|[Cc]oordination"
MAX_ERROR_BYTES = 2000  # of an error that is sent to other processes
TIMEOUT = 30  # seconds without a heartbeat until a process counts as ended
MEETING = 120  # seconds within which all processes must start
NOTICE = 10.0  # seconds until a process says for which ones it waits
WATCH = 5.0  # seconds between two looks for lost processes
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
        # Without it, a peer's end aborts this process in C++ with a page of text. Gloo
        # raises an error at once; on other devices JAX must abort, or it would wait.
        jax.config.update("jax_enable_recoverability", True)
    # JAX's own handler of SIGTERM would replace that of `signals`.
    jax.config.update("jax_enable_preemption_service", False)
    where = "" if coordinator == AUTO else f" at {coordinator}"
    text = f"waiting for the other processes{where} (at most {MEETING} s)\n"
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
    """Ends this process with one line once another one is frozen or cut off.

    Gloo would wait for it for ever. All processes of a run call this at the same time.
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


def is_multihost() -> bool:
    """Returns whether the run has more than one process."""
    return jax.process_count() > 1


def is_primary() -> bool:
    """Returns whether this process is the first, which has the work directory."""
    return jax.process_index() == 0


def barrier(name: str):
    """Waits until all processes reach the barrier `name`."""
    multihost_utils.sync_global_devices(name)


@contextlib.contextmanager
def locked_workdir(
    home: Path, lock_folder: Callable
) -> Iterator[tuple[Path, Any, Path | None]]:
    """Locks the work directory in the first process, temporary folders in the others.

    Args:
      home: Work directory.
      lock_folder: folder -> context manager of a lock.

    Yields:
      The folder of this process, its lock, and the work directory if several processes
      share it.
    """
    with contextlib.ExitStack() as stack:
        path = home
        if not is_primary():
            scratch = tempfile.TemporaryDirectory(prefix="jaxproto-")
            path = Path(stack.enter_context(scratch), home.name)
            stack.enter_context(atomic.in_progress(path.parent))  # signals remove it
        lock = raise_everywhere(lambda: stack.enter_context(lock_folder(path)))
        shared = is_multihost() and not any_process(not home.exists())
        yield path, lock, home if shared else None


def broadcast_result(compute: Callable[[], Any]) -> Any:
    """Runs `compute` in the first process, and broadcasts its result as JSON.

    Raises:
      UserError: The error of the first process, in all of them.
    """
    result = raise_everywhere(lambda: compute() if is_primary() else None)
    message = json.loads(_broadcast_bytes(json.dumps(result).encode()))
    return result if is_primary() else message


def raise_everywhere(compute: Callable[[], Any]) -> Any:
    """Returns the result of this process, unless one of the processes fails.

    Raises:
      UserError: The error of the first process that fails, in all of them.
    """
    result, error = None, None
    try:
        result = compute()
    except UserError as e:
        error = e
    text = b"" if error is None else f"!{error}".encode()
    text = text[:MAX_ERROR_BYTES].ljust(MAX_ERROR_BYTES, b"\0")
    for message in multihost_utils.process_allgather(np.frombuffer(text, np.uint8)):
        if message[0]:
            other = message.tobytes().rstrip(b"\0").decode("utf8", "replace")
            raise error or UserError(other[1:])
    return result


def check_equal(what: str, value: str):
    """Raises UserError unless a value is equal in all processes."""
    primary_value = broadcast_result(lambda: value)

    def compare():
        if value != primary_value:
            raise UserError(
                f"process {jax.process_index()} has another {what} than process 0; "
                "start all processes with the same command but for --process."
            )

    raise_everywhere(compare)


def broadcast_arrays(tree: Tree) -> Tree:
    """Broadcasts arrays of the first process; all pass arrays of equal shapes."""
    if not is_multihost():
        return tree

    def one(a):
        if is_key(a):
            data = one(jax.random.key_data(a))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
        a = np.asarray(a)
        content = np.frombuffer(a.tobytes(), np.uint8)
        message = multihost_utils.broadcast_one_to_all(content)
        return np.asarray(message, np.uint8).view(a.dtype).reshape(a.shape)

    return jax.tree.map(lambda a: one(a) if np.size(a) else np.asarray(a), tree)


def _broadcast_bytes(content: bytes) -> bytes:
    size = int(broadcast_arrays(np.int64(len(content))))
    padded = np.frombuffer(content.ljust(size, b" ")[:size], np.uint8)
    return broadcast_arrays(padded).tobytes()


def any_process(flag: bool) -> bool:
    """Returns whether the flag of any process is true, in all processes."""
    return bool(multihost_utils.process_allgather(np.array(flag)).any())


def check(exp: Experiment):
    """Raises UserError for options that a run by several processes cannot use."""
    if not is_multihost():
        return
    if exp.store in OFF_DEVICE:
        raise UserError(
            f"clients.store is {exp.store}, where one process has all clients; several "
            "processes keep them on their devices: --config.clients.store=device."
        )
    if exp.check_wire:
        raise UserError(
            "wire.check looks at every upload, and each process has those of its own "
            "clients; check the wire with one process."
        )


def run_together(train: Callable[[], bool]) -> bool:
    """Runs `train` in all processes, which end together; returns its result.

    Only the first process returns; the others need its coordinator until they have
    ended. If one ends early, the others end with one line, and at once, because JAX
    would wait for it at the end of Python.
    """
    if not is_multihost():
        return train()
    ok, stopped = False, None
    try:
        try:
            ok = train()
        except signals.StoppedBySignal as e:
            stopped = e
        barrier("the run has ended")
    except UserError as e:
        _exit(f"error: {e}")
    except (jax.errors.JaxRuntimeError, ValueError) as e:  # by platform
        why = " ".join(f"{e}".split())[:200]
        if not re.search(PEERS, why):
            raise
        lost = TWICE if "ALREADY_EXISTS" in why else LOST
        _exit(f"error: {lost} ({why}).")
    _ended.set()
    time.sleep(1.0 if is_primary() else 0.0)
    if stopped is not None:
        raise stopped
    if not is_primary():
        sys.stdout.flush()
        os._exit(0 if ok else 1)
    return ok


def _exit(line: str) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
    os._exit(1)
