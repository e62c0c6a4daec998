"""Short compilation: programs outlive the process, and tracing is left in peace."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import platformdirs
from jax.experimental.compilation_cache import compilation_cache


def keep_compiled() -> Path | None:
    """Turns JAX's persistent compilation cache on, in the user's cache folder.

    A folder chosen by the user stays: `JAX_COMPILATION_CACHE_DIR`, or
    `jax.config.jax_compilation_cache_dir`. `JAXPROTO_CACHE=off` switches it off.

    Returns:
      The folder in use, or None.
    """
    chosen = jax.config.values["jax_compilation_cache_dir"]
    if chosen is not None:
        return Path(chosen)
    if os.environ.get("JAXPROTO_CACHE") == "off":
        return None
    folder = Path(platformdirs.user_cache_dir("jaxproto")) / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    compilation_cache.reset_cache()  # or a process that has compiled would not use it
    return folder


@contextlib.contextmanager
def garbage_later() -> Iterator[None]:
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
