"""Values that all processes of a run agree on; one process agrees with itself.

Every process runs the same program with its own devices, and has the rows of its
clients on them. The first process (the primary) has the work directory. The others
write into temporary folders and receive what the primary reads. All processes call
these functions at the same time.
"""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxproto.core.types import Tree, is_key
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.io import atomic
from jaxproto.storage.workdir import WorkdirLock, lock_workdir

MAX_ERROR_BYTES = 2000  # of the message of an error that other processes receive


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
def locked_workdir(home: Path) -> Iterator[tuple[Path, WorkdirLock, Path | None]]:
    """Locks the work directory in the first process, temporary folders in the others.

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
        lock = raise_everywhere(lambda: stack.enter_context(lock_workdir(path)))
        shared = is_multihost() and not any_process(not home.exists())
        yield path, lock, home if shared else None


def broadcast_result(compute: Callable[[], Any]) -> Any:
    """Runs `compute` in the first process, and broadcasts its result as JSON.

    Raises:
      UserError: The error of the first process, in all of them.
    """
    result = raise_everywhere(lambda: compute() if is_primary() else None)
    content = json.dumps(result).encode()
    size = int(broadcast_arrays(np.int64(len(content))))
    padded = np.frombuffer(content.ljust(size, b" ")[:size], np.uint8)
    message = broadcast_arrays(padded).tobytes()
    return result if is_primary() else json.loads(message)


def raise_everywhere(compute: Callable[[], Any]) -> Any:
    """Returns the result of this process, unless one of the processes fails.

    Raises:
      UserError: The error of this process, else of the first process that fails.
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
    """Returns the arrays of the first process; all pass arrays of equal shapes."""
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


def any_process(flag: bool) -> bool:
    """Returns whether the flag of any process is true, in all processes."""
    return bool(multihost_utils.process_allgather(np.array(flag)).any())


def check(exp: Experiment):
    """Raises UserError for options that a run by several processes cannot use."""
    if not is_multihost():
        return
    if not exp.resident:
        raise UserError(
            f"clients.store is {exp.store}, where one process has all clients; several "
            "processes keep them on their devices: --config.clients.store=device."
        )
    if exp.check_wire:
        raise UserError(
            "wire.check looks at every upload, and each process has those of its own "
            "clients; check the wire with one process."
        )
