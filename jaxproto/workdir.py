"""The folder of a run: whose it is, whether it is finished, who is using it."""

import contextlib
import fcntl
import json
import re
from collections.abc import Iterator
from pathlib import Path

import ml_collections

from jaxproto import metrics
from jaxproto.config import differences, flat
from jaxproto.errors import UserError


def default(config: ml_collections.ConfigDict) -> Path:
    """`runs/<config>-<dataset>-seed<seed>`."""
    dataset = re.sub(r"[^\w.-]+", "_", Path(config.data.name).stem.split(":")[-1])
    return Path("runs") / f"{config.name}-{dataset}-seed{config.seed}"


@contextlib.contextmanager
def claim(path: Path) -> Iterator[None]:
    """Holds the folder for one process.

    Raises:
      UserError: the folder cannot be written, or another process is running in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("w")
    except OSError as e:
        raise UserError(
            f"cannot write to the work directory {path}: {e.strerror}. Choose another "
            "with --workdir."
        ) from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise UserError(
                f"another process is running in {path}; wait for it or choose another "
                "folder with --workdir."
            ) from e
        yield


def check_config(path: Path, config: ml_collections.ConfigDict):
    """Raises UserError if the folder holds a run of a different configuration."""
    file = path / "config.json"
    if not file.exists():
        return
    try:
        old = flat(json.loads(file.read_text()))
    except (ValueError, AttributeError) as e:
        raise UserError(
            f"{file} is damaged ({e}); move {path} away or choose another folder with "
            "--workdir."
        ) from e
    lines = differences(old, flat(config))
    if lines:
        raise UserError(
            f"{path} holds a run of a different configuration:\n  "
            + "\n  ".join(lines)
            + "\nNothing was changed. Choose another folder with --workdir, or give "
            "the values it was started with."
        )


def save_config(path: Path, config: ml_collections.ConfigDict):
    """Writes `config.json`."""
    metrics.write_json(path / "config.json", json.loads(config.to_json()))


def summary(path: Path) -> dict | None:
    """The summary of an ended run, or None."""
    file = path / "summary.json"
    return json.loads(file.read_text()) if file.exists() else None
