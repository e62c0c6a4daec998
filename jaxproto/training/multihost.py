"""A run by several processes, on one machine or on many, through `jax.distributed`.

Every process runs the same program: it has its own devices, and on them the rows of its
clients. The first process has the work directory; the others write what a run writes
into a folder that goes away, and hear from the first what it finds there. What a
process reads from the devices of others (losses, uploads, accuracies, a checkpoint) all
processes read at the same time.

A process that ends takes the others with it: what they say next to each other fails at
once, and they end with one line. The run goes on from its last checkpoint, with any
number of processes.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import OFF_DEVICE
from jaxproto.types import Tree

AUTO = "auto"
LOST = (
    "another process of this run has ended, or cannot be reached; start all of them "
    "again, and the run goes on from its last checkpoint"
)
PEERS = "Gloo|NCCL|[Cc]onnection|UNAVAILABLE|DEADLINE_EXCEEDED|[Cc]oordination"
LONGEST = 2000  # bytes of an error that other processes hear
SILENCE = 30  # seconds until a process that says nothing has ended


def initialize(coordinator: str, processes: int = 0, process: int = -1):
    """Makes this process one of several, before JAX looks for its devices.

    Args:
      coordinator: HOST:PORT of the first process; "auto" where JAX finds out by itself
        (SLURM, TPU pods, Open MPI, Kubernetes).
      processes: how many there are.
      process: which one this is, from 0.

    Raises:
      UserError: the numbers do not fit, or the processes do not find each other.
    """
    there: dict[str, Any] = {}
    if coordinator != AUTO:
        if processes < 1 or not 0 <= process < processes:
            raise UserError(
                f"--coordinator={coordinator} with --processes={processes} and "
                f"--process={process}; say how many processes there are and which one "
                "this is, from 0."
            )
        there = {
            "coordinator_address": coordinator,
            "num_processes": processes,
            "process_id": process,
        }
    if jax.config.values["jax_platforms"] == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # Without it, a peer's end aborts this process in C++ with a page of text; Gloo
        # says it as an error at once. Other devices would wait: there JAX aborts.
        jax.config.update("jax_enable_recoverability", True)
    try:
        jax.distributed.initialize(
            **there,
            initialization_timeout=120,
            heartbeat_timeout_seconds=SILENCE,
            shutdown_timeout_seconds=SILENCE,
        )
    except (RuntimeError, ValueError) as e:
        why = " ".join(f"{e}".split())[:300]
        hint = " Say HOST:PORT, --processes and --process." if not there else ""
        raise UserError(
            f"--coordinator={coordinator}: the processes did not meet ({why}).{hint}"
        ) from e


def is_multihost() -> bool:
    """Whether there is more than one process."""
    return jax.process_count() > 1


def is_primary() -> bool:
    """Whether this process has the work directory."""
    return jax.process_index() == 0


def barrier(why: str):
    """Until all processes are here."""
    multihost_utils.sync_global_devices(why)


def process_index() -> int:
    """Of this process, from 0."""
    return jax.process_index()


@contextlib.contextmanager
def claimed(home: Path, claim: Callable) -> Iterator[tuple[Path, Any, Path | None]]:
    """Claims the work directory in the first process, scratch folders in the others.

    Args:
      claim: folder -> context manager.

    Yields:
      The folder of this process, its claim, and the work directory if several processes
      see it.
    """
    with contextlib.ExitStack() as stack:
        path = home
        if not is_primary():
            scratch = tempfile.TemporaryDirectory(prefix="jaxproto-")
            path = Path(stack.enter_context(scratch), home.name)
        mine = raise_everywhere(lambda: stack.enter_context(claim(path)))
        shared_by_all = is_multihost() and not any_process(not home.exists())
        yield path, mine, home if shared_by_all else None


def broadcast_result(find: Callable[[], Any]) -> Any:
    """Runs `find` on the first process; returns what it finds, as JSON has it.

    Raises:
      UserError: of the first process, in all of them.
    """
    found = raise_everywhere(lambda: find() if is_primary() else None)
    message = json.loads(_shared_bytes(json.dumps(found).encode()))
    return found if is_primary() else message


def raise_everywhere(do: Callable[[], Any]) -> Any:
    """Returns what each process makes, unless one of them cannot.

    Raises:
      UserError: of the first process that has one, in all of them.
    """
    made, error = None, None
    try:
        made = do()
    except UserError as e:
        error = e
    why = b"" if error is None else f"!{error}".encode()
    line = np.frombuffer(why[:LONGEST].ljust(LONGEST, b"\0"), np.uint8)
    for message in multihost_utils.process_allgather(line):
        if message[0]:
            there = message.tobytes().rstrip(b"\0").decode("utf8", "replace")
            raise error or UserError(there[1:])
    return made


def check_equal(what: str, value: str):
    """Raises UserError unless all processes have the same value of something."""
    there = broadcast_result(lambda: value)

    def compare():
        if value != there:
            raise UserError(
                f"process {jax.process_index()} has another {what} than process 0; "
                "start all processes with the same command but for --process."
            )

    raise_everywhere(compare)


def broadcast_arrays(tree: Tree) -> Tree:
    """The arrays of the first process in all; the others give some of their shapes."""
    if not is_multihost():
        return tree

    def one(a):
        if jax.dtypes.issubdtype(getattr(a, "dtype", None), jax.dtypes.prng_key):
            data = one(jax.random.key_data(a))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
        a = np.asarray(a)
        message = multihost_utils.broadcast_one_to_all(_bytes(a))
        return np.asarray(message, np.uint8).view(a.dtype).reshape(a.shape)

    return jax.tree.map(lambda a: one(a) if np.size(a) else np.asarray(a), tree)


def _bytes(a: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8)


def _shared_bytes(content: bytes) -> bytes:
    size = int(broadcast_arrays(np.int64(len(content))))
    mine = np.frombuffer(content.ljust(size, b" ")[:size], np.uint8)
    return broadcast_arrays(mine).tobytes()


def any_process(asked: bool) -> bool:
    """Whether any process was asked, in all processes."""
    return bool(multihost_utils.process_allgather(np.array(asked)).any())


def check(exp: Experiment):
    """Raises UserError for what a run by several processes cannot do."""
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


@contextlib.contextmanager
def fail_together() -> Iterator[None]:
    """Ends this process with one line if another one has ended.

    JAX would wait for the others at the end of Python: this does not.
    """
    try:
        yield
    except UserError as e:
        if not is_multihost():
            raise
        _leave(f"error: {e}")
    except (jax.errors.JaxRuntimeError, ValueError) as e:  # it depends on the platform
        why = " ".join(f"{e}".split())[:200]
        if not is_multihost() or not re.search(PEERS, why):
            raise
        _leave(f"error: {LOST} ({why}).")


def exit_secondary_processes(code: int):
    """Ends all processes but the first, which outlives what the others hear from it."""
    if not is_multihost():
        return
    barrier("the run has ended")
    if is_primary():
        time.sleep(1.0)
        return
    sys.stdout.flush()
    os._exit(code)


def _leave(line: str):
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
    os._exit(1)
