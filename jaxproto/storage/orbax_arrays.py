"""Arrays by name in a folder, stored by orbax.

Orbax and its TensorStore report a full disk by errors of many types, by logs and by
tracebacks of their threads. This module turns them into one `ArrayWriteError`.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

LATE_ERROR = "Event loop is closed"  # of threads of a save that has failed already


class ArrayWriteError(Exception):
    """A failed write; the message is the reason, as the operating system words it."""


def write(folder: Path, arrays: Mapping[str, np.ndarray]):
    """Writes the arrays, at least one, into a new folder.

    Raises:
      ArrayWriteError: not all arrays were written.
    """
    hook = sys.unraisablehook
    sys.unraisablehook = _without_late_errors(hook)  # stays after an error
    try:
        with _orbax() as checkpointer:
            checkpointer.save(folder, args=ocp.args.PyTreeSave(dict(arrays)))
    except Exception as e:  # of many types
        raise ArrayWriteError(_system_message(e)) from e
    sys.unraisablehook = hook


def read(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads the arrays with these names, at least one."""
    args = ocp.args.PyTreeRestore(
        item=dict.fromkeys(names, 0),
        restore_args=dict.fromkeys(names, ocp.RestoreArgs(restore_type=np.ndarray)),
    )
    with _orbax() as checkpointer:
        return checkpointer.restore(folder, args=args)


def read_all(folder: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of a folder, by name."""
    with _orbax() as checkpointer:
        names = checkpointer.metadata(folder).item_metadata.tree
    return read(folder, list(names))


@contextlib.contextmanager
def _orbax() -> Iterator[ocp.Checkpointer]:
    """Opens an orbax checkpointer that blocks and logs nothing."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)  # failures also raise
    try:
        # Weights do not compress: zstd saves 8% and takes two to three times as long.
        me = jax.process_index()  # it writes without waiting for other processes
        options = ocp.options.MultiprocessingOptions(
            primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"{me}"
        )
        handler = ocp.PyTreeCheckpointHandler(
            use_zarr3=True, use_compression=False, multiprocessing_options=options
        )
        with ocp.Checkpointer(handler, multiprocessing_options=options) as checkpointer:
            yield checkpointer
    finally:
        logging.set_verbosity(before)


def _without_late_errors(hook):
    def show(unraisable):
        if str(unraisable.exc_value) != LATE_ERROR:
            hook(unraisable)

    return show


def _system_message(error: Exception) -> str:
    """Returns the operating system's message from an error of orbax."""
    if code := re.search(r"os_error_code='(\d+)'", str(error)):
        return os.strerror(int(code[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0][:200] or type(error).__name__
