"""Named arrays in a folder, written by orbax.

No other file imports orbax. On a full disk or damaged files, orbax and TensorStore
raise errors of many kinds and log from their own threads; `write` raises one
`ArrayWriteError` instead.
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

LATE_ERROR = "Event loop is closed"  # from threads, after a save has failed


class ArrayWriteError(Exception):
    """Error of arrays that could not be written, with the reason of the system."""


def write(folder: Path, arrays: Mapping[str, np.ndarray]):
    """Writes the arrays, at least one, into a new folder.

    Raises:
      Failed: not all of them could be written.
    """
    shown = sys.unraisablehook
    sys.unraisablehook = _unless_late(shown)  # stays so after an error
    try:
        with _orbax() as checkpointer:
            checkpointer.save(folder, args=ocp.args.PyTreeSave(dict(arrays)))
    except Exception as e:  # of many kinds, and from several threads
        raise ArrayWriteError(_reason(e)) from e
    sys.unraisablehook = shown


def read(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads the arrays of these names, at least one."""
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
    """Opens an orbax checkpointer that blocks, writes fast and does not log."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)  # failures raise as well
    try:
        # Weights do not compress: zstd saves 8% and takes two to three times as long.
        me = jax.process_index()  # each process writes alone, without barriers
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
    """Returns the message of the system within an error of orbax."""
    if code := re.search(r"os_error_code='(\d+)'", str(error)):
        return os.strerror(int(code[1]))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0][:200] or type(error).__name__
