"""Arrays by name in a folder; the only file that knows orbax.

Orbax and its TensorStore meet a full disk and damage with errors of many kinds, logs
and tracebacks of their own threads. Here that is one `ArrayWriteError`.
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

LATE_ERROR = (
    "Event loop is closed"  # what threads say of a save that has failed already
)


class ArrayWriteError(Exception):
    """Arrays could not be written; the message is the reason, in the system's words."""


def write(folder: Path, arrays: Mapping[str, np.ndarray]):
    """Writes the arrays, at least one, into a new folder.

    Raises:
      Failed: they are not all there.
    """
    shown = sys.unraisablehook
    sys.unraisablehook = _unless_late(shown)  # it stays after an error
    try:
        with _orbax() as checkpointer:
            checkpointer.save(folder, args=ocp.args.PyTreeSave(dict(arrays)))
    except Exception as e:  # of many kinds, and from several threads
        raise ArrayWriteError(_reason(e)) from e
    sys.unraisablehook = shown


def read(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of these names, at least one."""
    args = ocp.args.PyTreeRestore(
        item=dict.fromkeys(names, 0),
        restore_args=dict.fromkeys(names, ocp.RestoreArgs(restore_type=np.ndarray)),
    )
    with _orbax() as checkpointer:
        return checkpointer.restore(folder, args=args)


def read_all(folder: Path) -> dict[str, np.ndarray]:
    """All arrays of a folder, by name."""
    with _orbax() as checkpointer:
        names = checkpointer.metadata(folder).item_metadata.tree
    return read(folder, list(names))


@contextlib.contextmanager
def _orbax() -> Iterator[ocp.Checkpointer]:
    """An orbax checkpointer that blocks, writes fast and does not chat."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)  # whatever fails raises as well
    try:
        # Weights do not compress: zstd saves 8% and takes two to three times as long.
        me = jax.process_index()  # of several, one writes and waits for nobody
        alone = ocp.options.MultiprocessingOptions(
            primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"{me}"
        )
        how = alone if jax.process_count() > 1 else ocp.options.MultiprocessingOptions()
        form = ocp.PyTreeCheckpointHandler(
            use_zarr3=True, use_compression=False, multiprocessing_options=how
        )
        with ocp.Checkpointer(form, multiprocessing_options=how) as checkpointer:
            yield checkpointer
    finally:
        logging.set_verbosity(before)


def _unless_late(shown):
    def show(unraisable):
        if str(unraisable.exc_value) != LATE_ERROR:
            shown(unraisable)

    return show


def _reason(error: Exception) -> str:
    """The system's words, which orbax has inside its own."""
    if code := re.search(r"os_error_code='(\d+)'", str(error)):
        return os.strerror(int(code[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0][:200] or type(error).__name__
