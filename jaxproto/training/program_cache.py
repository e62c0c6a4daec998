"""On-disk cache of traced programs: the next run with equal settings traces nothing.

JAX's persistent cache stores what XLA compiled, but Python still traces and lowers
every program to look it up, which is most of a warm start. This cache stores lowered
programs as StableHLO (`jax.export`) beside JAX's cache. The key is a digest of all that
a program follows from: settings, numbers of examples, shapes, this package's source,
versions, JAX's configuration. It does not include code outside the package. So
`jaxproto.run` uses the cache only with `cache=True`, as the command line does, and
never where a registry has an entry of the user (`config/user_code.py`).

Files hold plain data (`exported_program`) in an owner-only folder (`io/owner_only.py`).
A file that does not verify is traced again, with one warning; a folder or file that
somebody else could have written is not read. A checksum is no signature: code that may
write as this user may change what runs, here as in JAX's cache.
"""

import contextlib
import importlib.metadata
import importlib.resources
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path

import jax
import jax.export
import ml_collections
import numpy as np

from jaxproto.config import user_code
from jaxproto.experiment import method_builder, traced
from jaxproto.experiment.build import Experiment
from jaxproto.io import atomic, owner_only
from jaxproto.storage import file_lock
from jaxproto.training import xla_cache
from jaxproto.training.exported_program import Damaged, digest, pack, unpack

ProgramWrapper = Callable[[str, Callable, tuple], Callable]

KEPT_NOTE = "programs kept in"
UNUSED_SECONDS = 30 * 24 * 3600  # seconds after which an unused program is removed
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "chex", "numpy")
_Trial = tuple[list[Path], contextlib.ExitStack]  # loaded files, and their marks
_trial: ContextVar[_Trial | None] = ContextVar("trial", default=None)


def uncached(name: str, f: Callable, args: tuple) -> Callable:
    """Returns the function itself, to be traced in this process."""
    return f


def disk_cache(
    compiled: Path | None, config: ml_collections.ConfigDict, exp: Experiment
) -> ProgramWrapper:
    """Returns the wrapper that caches the programs of a run beside JAX's cache.

    Args:
      compiled: Folder of JAX's cache; None or a remote one (gs://) caches nothing.

    Returns:
      name, function, arguments -> an equivalent function that is not traced again, or
      the function itself if it cannot be cached.
    """
    if compiled is None or ":/" in str(compiled):
        return uncached
    if any(user_code.entries()):
        return uncached
    return partial(load_or_trace, compiled / "traced", cache_key(config, exp))


def compile_lock(
    compiled: Path | None,
    config: ml_collections.ConfigDict,
    exp: Experiment,
    say: Callable[[str], object] = str,
) -> contextlib.AbstractContextManager:
    """Locks out other processes that compile equal programs; they read them later.

    Args:
      compiled: Folder of JAX's cache; None or a remote one (gs://) locks nothing.
      say: Prints a line about the process for which this one waits.
    """
    if compiled is None or ":/" in str(compiled):
        return contextlib.nullcontext()
    folder = compiled / "traced"
    try:
        owner_only.owner_only_folder(folder)
    except (owner_only.NotOwnedError, OSError):  # `load_or_trace` warns
        return contextlib.nullcontext()
    lock = folder / f"{cache_key(config, exp)}.lock"
    return file_lock.exclusive_lock(lock, say, "compiles the same programs")


def cache_key(config: ml_collections.ConfigDict, exp: Experiment) -> str:
    """Returns a digest of all that a run's programs follow from, except arguments."""
    settings = traced.program_settings(config)
    sizes = [[len(rows) for rows in part] for part in exp.partition if part]
    cohorts = [
        (c.name, c.ids, c.num_rows, exp.num_calls(c), c.scoring.rules)
        for c in exp.cohorts
    ]
    parts = [settings, sizes, cohorts, environment()]
    text = json.dumps(parts, sort_keys=True, default=repr).encode()
    arrays = *exp.counts[:2], method_builder.public_inputs(exp.dataset)
    return digest(text, *(np.asarray(a).tobytes() for a in arrays if a is not None))


def environment() -> list:
    """Returns versions, device and JAX configuration, which affect tracing."""
    options = {k: v for k, v in jax.config.values.items() if "cache" not in k}
    versions = [importlib.metadata.version(name) for name in LIBRARIES]
    device = jax.devices()[0]
    machine = [platform.python_version(), device.platform, device.device_kind]
    return [source(), versions, machine, jax.device_count(), options]


@cache
def source() -> str:
    """Returns a digest of this package's source."""
    root = Path(str(importlib.resources.files("jaxproto")))
    parts = []
    for file in sorted(root.rglob("*.py")):
        parts += [str(file.relative_to(root)).encode(), file.read_bytes()]
    return digest(*parts)


def load_or_trace(
    folder: Path, cache_key: str, name: str, f: Callable, args: tuple
) -> Callable:
    """Returns the cached program of a function; traces and stores it if missing."""
    shapes = jax.tree.map(lambda a: f"{a.dtype}{a.shape}", args)
    file = folder / digest(cache_key.encode(), name.encode(), repr(shapes).encode())
    try:
        owner_only.owner_only_folder(folder)
    except (owner_only.NotOwnedError, OSError) as e:
        xla_cache.warn_once(f"{KEPT_NOTE} {folder} are not used: {e}.")
        return f
    try:
        content = owner_only.read_owner_only(file)
        if not has_survived(file):
            raise Damaged("the process that compiled it has died")
        program = unpack(file.name, content, args)
        os.utime(file)
        return program.call
    except FileNotFoundError:
        pass
    except (owner_only.NotOwnedError, Damaged, OSError) as e:
        discard(file, e)
    return trace_and_store(file, f, args)


@contextlib.contextmanager
def trial() -> Iterator[list[Path]]:
    """Yields the files of programs that this thread loads until the block ends.

    A program that was damaged before its checksum was computed can raise an error in
    XLA, or crash the process. So a program has a locked mark beside its file while it
    is compiled. A mark without its lock is that of a process that has died.
    """
    files, marks = list[Path](), contextlib.ExitStack()
    token = _trial.set((files, marks))
    try:
        with marks:
            yield files
    finally:
        _trial.reset(token)


def has_survived(file: Path) -> bool:
    """Marks a program until the trial ends; returns False if its compiler has died."""
    if (current := _trial.get()) is None:
        return True
    files, marks = current
    files.append(file)
    mark = file.with_name(f"{file.name}.trial")
    try:
        opened = marks.enter_context(mark.open("a+b"))
        dead = marks.enter_context(file_lock.locked(opened))
        marks.enter_context(atomic.in_progress(mark))  # signals remove it
    except (OSError, file_lock.Held):  # no room, or another process compiles it now
        return True
    marks.callback(mark.unlink, missing_ok=True)
    return not dead


def discard(file: Path, why: Exception):
    """Removes a cached program, so that it is made anew."""
    xla_cache.warn_once(f"{KEPT_NOTE} {file.parent}: one is made anew: {why}.")
    with contextlib.suppress(OSError):
        file.unlink()


def trace_and_store(file: Path, f: Callable, args: tuple) -> Callable:
    """Traces a function; stores the program if it can be serialised."""
    try:
        program = jax.export.export(jax.jit(f))(*args)
        content = pack(file.name, program)
    except Exception:  # not serialisable, or wrong: then tracing it raises the error
        return f
    try:
        save(file, content)
    except (atomic.Unwritable, OSError) as e:
        xla_cache.warn_once(f"{KEPT_NOTE} {file.parent}: none is kept: {e}.")
    return program.call


def save(file: Path, content: bytes):
    """Writes a program atomically, and removes programs that were long unused."""
    for other in file.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            if other.stat().st_mtime < time.time() - UNUSED_SECONDS:
                other.unlink()
    atomic.write(file, content, private=True)
