"""Enables JAX's persistent compilation cache, and pauses garbage collection.

JAX executes the content of its cache, so the folder is owner-only. JAX never overwrites
a file in it: with a damaged one it would warn and compile at every start. So each start
removes damaged files.
"""

import contextlib
import functools
import gc
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
import platformdirs
from absl import logging
from jax.experimental.compilation_cache import compilation_cache

from jaxproto.io import owner_only

ZSTD = bytes.fromhex("28b52ffd")  # first bytes of a file of zstd


@functools.cache
def warn_once(text: str):
    """Logs a warning once in a process."""
    logging.warning("%s", text)


def enable_xla_cache() -> Path | None:
    """Enables JAX's persistent compilation cache, in the user's cache folder.

    `JAX_COMPILATION_CACHE_DIR` or `jax.config.jax_compilation_cache_dir` select another
    folder, and `JAXPROTO_CACHE=off` disables the cache.

    Returns:
      The folder; None if the cache is off, or, with a warning, if others could have
      written into the folder.
    """
    chosen = jax.config.values["jax_compilation_cache_dir"]
    if chosen is not None:
        remove_damaged(Path(chosen))
        return Path(chosen)
    if os.environ.get("JAXPROTO_CACHE") == "off":
        return None
    folder = Path(platformdirs.user_cache_dir("jaxproto")) / "compiled"
    try:
        owner_only.owner_only_folder(folder)
    except (owner_only.NotOwnedError, OSError) as e:
        warn_once(f"compiled programs are not kept: {e}.")
        return None
    remove_damaged(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    compilation_cache.reset_cache()  # else a process that has compiled would not use it
    return folder


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses garbage collection, which takes a quarter of the time of tracing.

    Tracing creates many objects that stay, and the collector visits all of them again
    and again (benchmarks/RESULTS.md).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def remove_damaged(folder: Path):
    """Removes files of JAX's cache that were cut short or changed.

    Only files since the last check are read: a process may have been killed while it
    wrote them. Files of zstd, which JAX uses if zstandard is installed, are not read. A
    folder that is missing or cannot be written is left alone.
    """
    checked = folder / "checked"
    with contextlib.suppress(OSError):
        since = checked.stat().st_mtime if checked.exists() else 0.0
        checked.touch()
        recent = [f for f in folder.glob("*-cache") if f.stat().st_mtime >= since]
        damaged = [file for file in recent if not _is_readable(file.read_bytes())]
        for file in damaged:
            file.unlink()
        if damaged:
            count = len(damaged)
            warn_once(f"{count} damaged in {folder}: removed, and compiled anew.")


def _is_readable(content: bytes) -> bool:
    """Returns whether zlib, which has a checksum, decompresses the content."""
    try:
        return content[:4] == ZSTD or bool(zlib.decompress(content))
    except zlib.error:
        return False
