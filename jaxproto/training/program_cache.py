"""Traced programs outlive the process: the next run of their settings traces nothing.

JAX's persistent cache keeps what XLA compiled, but Python still traces and lowers every
program to find it there, most of a warm start. What was lowered is kept as StableHLO
(`jax.export`) beside JAX's cache, under a digest of all that it follows from: settings,
who has how many examples, shapes, this package's source, versions, JAX's configuration.
Code outside the package cannot be in the digest. So only `main.py` keeps programs, not
`jaxproto.run` in a process that may have changed functions, and not with a method, a
network or a sampler of one's own.

Files hold plain data (`stored`) in a folder of the user alone (`io/owner_only.py`). One
that does not verify is traced anew, and said once; a folder or file that somebody else
could have written is not read. A checksum is no signature: who may write as this user
may change what runs, here as in JAX's cache.
"""

import contextlib
import importlib.metadata
import importlib.resources
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path

import jax
import jax.export
import ml_collections
import numpy as np

from jaxproto import models, participation
from jaxproto.config import registries as options
from jaxproto.experiment import traced
from jaxproto.experiment.build import Experiment
from jaxproto.io import atomic, owner_only
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.storage import workdir
from jaxproto.training import xla_cache
from jaxproto.training.exported_program import Damaged, digest, pack, unpack

ProgramWrapper = Callable[[str, Callable, tuple], Callable]
ProgramCache = Callable[
    [Path | None, ml_collections.ConfigDict, Experiment], ProgramWrapper
]

KEPT_NOTE = "programs kept in"
UNUSED_SECONDS = 30 * 24 * 3600  # seconds after which a program is forgotten
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "chex", "numpy")
REGISTRIES: tuple[Mapping[str, object], ...] = (
    METHODS,
    METRICS,
    models.NETS,
    participation.SAMPLERS,
    options.DERIVED_ARGUMENTS,
    options.ORDERS,
    options.SHORT_CLIENT_POLICIES,
    options.OPTIMIZER_STATES,
)


def uncached(name: str, f: Callable, args: tuple) -> Callable:
    """The function itself: it is traced in this process."""
    return f


def no_cache(
    compiled: Path | None, config: ml_collections.ConfigDict, exp: Experiment
) -> ProgramWrapper:
    """Every program is traced in this process."""
    return uncached


def disk_cache(
    compiled: Path | None, config: ml_collections.ConfigDict, exp: Experiment
) -> ProgramWrapper:
    """Programs that runs of these settings keep beside JAX's cache.

    Args:
      compiled: folder of JAX's cache; none, or one that is not on disk (gs://), keeps
        nothing.

    Returns:
      name, function, arguments -> a function that gives the same and is not traced
      again. What cannot be kept is traced in this process.
    """
    if compiled is None or ":/" in str(compiled):
        return uncached
    if options.options_changed() or has_user_code(REGISTRIES):
        return uncached
    return partial(load_or_trace, compiled / "traced", cache_key(config, exp))


def compile_lock(
    compiled: Path | None, config: ml_collections.ConfigDict, exp: Experiment
) -> contextlib.AbstractContextManager:
    """Holds other processes back that want to compile the programs of these settings.

    They find in the cache what the first of them has put there.

    Args:
      compiled: folder of JAX's cache; none, or one that is not on disk: nobody waits.
    """
    if compiled is None or ":/" in str(compiled):
        return contextlib.nullcontext()
    folder = compiled / "traced"
    try:
        owner_only.owner_only_folder(folder)
    except (owner_only.NotOwnedError, OSError):  # `wrap` says it
        return contextlib.nullcontext()
    return workdir.exclusive_lock(folder / f"{cache_key(config, exp)}.lock")


def has_user_code(registries: Iterable[Mapping[str, object]]) -> bool:
    """Whether a name stands for a function from outside the package."""
    inside = "jaxproto."
    entries = (f for names in registries for f in names.values())
    origins = (getattr(getattr(f, "func", f), "__module__", "") for f in entries)
    return any(not origin.startswith(inside) for origin in origins)


def cache_key(config: ml_collections.ConfigDict, exp: Experiment) -> str:
    """Digest of all that the programs of a run follow from, but their arguments."""
    settings = traced.program_settings(config)
    sizes = [[len(rows) for rows in part] for part in exp.partition]
    parts = [
        settings,
        sizes,
        [
            (c.name, c.ids, c.num_rows, c.num_lanes, c.scoring.rules)
            for c in exp.cohorts
        ],
        environment(),
    ]
    told = json.dumps(parts, sort_keys=True, default=repr).encode()
    counts = (np.asarray(a).tobytes() for a in exp.counts)
    return digest(told, *counts)


def environment() -> list:
    """Versions, device and configuration: what else decides how a program is traced."""
    set_up = {k: v for k, v in jax.config.values.items() if "cache" not in k}
    versions = [importlib.metadata.version(name) for name in LIBRARIES]
    device = jax.devices()[0]
    machine = [platform.python_version(), device.platform, device.device_kind]
    return [source(), versions, machine, jax.device_count(), set_up]


@cache
def source() -> str:
    """Digest of this package's source."""
    root = Path(str(importlib.resources.files("jaxproto")))
    parts = []
    for file in sorted(root.rglob("*.py")):
        parts += [str(file.relative_to(root)).encode(), file.read_bytes()]
    return digest(*parts)


def load_or_trace(
    folder: Path, cache_key: str, name: str, f: Callable, args: tuple
) -> Callable:
    """The function as it was traced before; traced and kept now if it was not."""
    shapes = jax.tree.map(lambda a: f"{a.dtype}{a.shape}", args)
    file = folder / digest(cache_key.encode(), name.encode(), repr(shapes).encode())
    try:
        owner_only.owner_only_folder(folder)
    except (owner_only.NotOwnedError, OSError) as e:
        xla_cache.warn_once(f"{KEPT_NOTE} {folder} are not used: {e}.")
        return f
    try:
        program = unpack(file.name, owner_only.read_owner_only(file), args)
        os.utime(file)
        return program.call
    except FileNotFoundError:
        return trace_and_store(file, f, args)
    except (owner_only.NotOwnedError, Damaged, OSError) as e:
        xla_cache.warn_once(f"{KEPT_NOTE} {folder}: one is made anew: {e}.")
    with contextlib.suppress(OSError):
        file.unlink()
    return trace_and_store(file, f, args)


def trace_and_store(file: Path, f: Callable, args: tuple) -> Callable:
    """Traces the function; keeps it if it can be written down."""
    try:
        program = jax.export.export(jax.jit(f))(*args)
        content = pack(file.name, program)
    except Exception:  # it cannot be written, or is wrong: then tracing it says how
        return f
    try:
        save(file, content)
    except (atomic.Unwritable, OSError) as e:
        xla_cache.warn_once(f"{KEPT_NOTE} {file.parent}: none is kept: {e}.")
    return program.call


def save(file: Path, content: bytes):
    """All or nothing, also beside another process; what nobody used for long goes."""
    for other in file.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process was first
            if other.stat().st_mtime < time.time() - UNUSED_SECONDS:
                other.unlink()
    atomic.write(file, content, private=True)
