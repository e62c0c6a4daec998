"""Short compilation: programs outlive the process, and tracing is left in peace.

JAX runs what its cache holds, so the folder is one of the user alone. A file there that
was damaged makes JAX warn and compile, at every start, as it never writes a file that
is there; here the damaged file is removed, so that the same start writes it anew.
"""

import contextlib
import functools
import gc
import os
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
import platformdirs
from absl import logging
from jax.experimental.compilation_cache import compilation_cache

from jaxproto.io import owner_only

ZSTD = bytes.fromhex("28b52ffd")
UNREADABLE = "Error reading persistent compilation cache entry"  # JAX's warning


@functools.cache
def warn_once(text: str):
    """A warning, once in a process."""
    logging.warning("%s", text)


def enable_xla_cache() -> Path | None:
    """Turns JAX's persistent compilation cache on, in the user's cache folder.

    A folder chosen by the user stays: `JAX_COMPILATION_CACHE_DIR`, or
    `jax.config.jax_compilation_cache_dir`. `JAXPROTO_CACHE=off` switches it off.

    Returns:
      The folder in use, or None: also where others could have written into it, which
      is said.
    """
    chosen = jax.config.values["jax_compilation_cache_dir"]
    if chosen is not None:
        remove_unreadable(Path(chosen))
        return Path(chosen)
    if os.environ.get("JAXPROTO_CACHE") == "off":
        return None
    folder = Path(platformdirs.user_cache_dir("jaxproto")) / "compiled"
    try:
        owner_only.owner_only_folder(folder)
    except (owner_only.NotOwnedError, OSError) as e:
        warn_once(f"compiled programs are not kept: {e}.")
        return None
    remove_unreadable(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    compilation_cache.reset_cache()  # or a process that has compiled would not use it
    return folder


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """No collection of cyclic garbage inside: a quarter of the time tracing takes.

    Tracing makes many objects that stay, and the collector looks at all of them again
    and again (benchmarks/RESULTS.md).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@functools.cache
def remove_unreadable(folder: Path):
    """From now on, JAX's warning of a damaged file in its cache removes such files."""
    before = warnings.showwarning

    def show(message, *args, **kwargs):
        if UNREADABLE in str(message) and (found := unreadable(folder)):
            for file in found:
                file.unlink(missing_ok=True)
            warn_once(f"{len(found)} damaged in {folder}: removed, and compiled anew.")
            return
        before(message, *args, **kwargs)

    warnings.filterwarnings("always", UNREADABLE)  # also the same words twice
    warnings.showwarning = show


def unreadable(folder: Path) -> list[Path]:
    """JAX's files that do not decompress; zlib has a checksum of its content.

    Those of zstd, which JAX takes where zstandard is installed, are not looked at.
    """
    return [file for file in folder.glob("*-cache") if not _readable(file)]


def _readable(file: Path) -> bool:
    try:
        content = file.read_bytes()
        if content[:4] != ZSTD:
            zlib.decompress(content)
    except FileNotFoundError:  # removed meanwhile
        return True
    except zlib.error:
        return False
    return True
