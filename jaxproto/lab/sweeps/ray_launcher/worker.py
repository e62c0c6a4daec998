"""Training of a part of a sweep in a worker process on a shared file system."""

import contextlib
import io
import os
import platform
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto.errors import UserError
from jaxproto.io import atomic, user_files
from jaxproto.lab.sweeps import execute, live_table
from jaxproto.lab.sweeps.axes import AxesSpec, parse_axes
from jaxproto.lab.sweeps.execute import SweepOptions
from jaxproto.lab.sweeps.plan import plan, select_part


class RemoteJob(NamedTuple):
    """Arguments of the worker of every part; plain data, except `how`."""

    config: dict
    plain: dict
    axes: AxesSpec
    outdir: str
    how: SweepOptions
    flags: dict[str, Any]  # options of JAX, by name
    folder: str  # working directory of the sweep, for relative paths
    probe: str  # file that every machine must see


@contextlib.contextmanager
def probe(folder: Path) -> Iterator[Path]:
    """Yields a new empty file, which machines that share the folder see."""
    with atomic.write_errors(folder, 0):
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".shared-")
        os.close(handle)
    with atomic.in_progress(Path(name)):  # removed later even if this process is killed
        yield Path(name)
    atomic.remove(Path(name))


def train_part(job: RemoteJob, k: int, n: int) -> str:
    """Trains the k-th of n parts; returns its error, or "".

    Changes the working directory and the JAX options of the process.
    """
    try:
        _train(job, k, n)
    except UserError as e:
        return str(e)
    except Exception:
        return traceback.format_exc()
    return ""


def _train(job: RemoteJob, k: int, n: int):
    _enter(job)
    for name, value in job.flags.items():
        jax.config.update(name, value)
    config, plain = map(ml_collections.ConfigDict, (job.config, job.plain))
    user_files.import_missing(config.imports)
    parsed, same_code = parse_axes(config, job.axes), job.how.same_code
    whole = plan(config, parsed, job.outdir, plain, same_code)
    part, quiet = select_part(whole, k, n), Console(file=io.StringIO(), quiet=True)
    with live_table.LiveTable(part, quiet).live() as table:
        execute.train(part, job.how, table, quiet)


def _enter(job: RemoteJob):
    """Enters the working directory of the sweep."""
    if not os.path.exists(job.probe):
        raise UserError(
            f"{platform.node()} does not see {Path(job.probe).parent}, where the sweep "
            "was started; start it from a folder that all machines share."
        )
    try:
        os.chdir(job.folder)
    except OSError as e:
        raise UserError(
            f"{platform.node()} cannot enter {job.folder}, where the sweep was started "
            f"({e.strerror}); start it from a folder that all machines share."
        ) from e
