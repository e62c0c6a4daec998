"""The folder of a run: whose it is, whether it is finished, who is using it."""

import contextlib
import fcntl
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_collections

from jaxproto.config import differences, flat, registries, saved
from jaxproto.data import text
from jaxproto.errors import UserError
from jaxproto.storage import records

VOCABULARY = "vocabulary.txt"


def default(config: ml_collections.ConfigDict) -> Path:
    """`runs/<config>-<dataset>-seed<seed>`."""
    kind, _, rest = config.data.name.partition(":")
    files = ("csv", "folder", "npz")
    dataset = Path(rest).stem if kind in files else rest or kind
    dataset = re.sub(r"[^\w.-]+", "_", dataset)
    return Path("runs") / f"{config.name}-{dataset}-seed{config.seed}"


@contextlib.contextmanager
def claim(path: Path) -> Iterator[None]:
    """Holds the folder for one process.

    Raises:
      UserError: the folder cannot be written, or another process is running in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("a")  # no change of a finished folder
    except OSError as e:
        raise UserError(
            f"cannot write to the work directory {path}: {e.strerror}. Choose another "
            "with --workdir."
        ) from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise UserError(
                f"another process is running in {path}; wait for it or choose another "
                "folder with --workdir."
            ) from e
        except OSError:
            pass  # a file system without locks, such as Drive on Colab
        yield


def check_config(path: Path, config: ml_collections.ConfigDict):
    """Raises UserError if the folder holds a run of a different configuration.

    More rounds than it was started with are no difference: they are trained after the
    ones that are there. That holds unless a round depends on how many there will be.
    """
    old = _read_json(path / "config.json")
    if old is None:
        return
    there, here = saved(old), flat(config)
    if here["rounds"] > there["rounds"] and not registries.needs_rounds(config):
        there["rounds"] = here["rounds"]
    lines = differences(there, here)
    if lines:
        raise UserError(
            f"{path} holds a run of a different configuration:\n  "
            + "\n  ".join(lines)
            + "\nNothing was changed. Choose another folder with --workdir, or give "
            "the values it was started with."
        )


def save_config(path: Path, config: ml_collections.ConfigDict):
    """Writes `config.json`."""
    records.write_json(path / "config.json", json.loads(config.to_json()))


def tokens(path: Path) -> tuple[str, ...] | None:
    """The vocabulary of the run that began in the folder; None where there is none."""
    begun = (path / "config.json").exists()
    return text.read(path / VOCABULARY) if begun else None


def save_tokens(path: Path, tokens: Sequence[str]):
    """Writes `vocabulary.txt`, one token per line, of a run on texts."""
    if tokens:
        text.write(path / VOCABULARY, tokens)


def summary(path: Path) -> dict | None:
    """The summary of an ended run, or None."""
    return _read_json(path / "summary.json")


def _read_json(file: Path) -> dict | None:
    """The object in `file`, or None where there is no such file."""
    if not file.exists():
        return None
    try:
        content = json.loads(file.read_text())
    except ValueError as e:
        content = e
    if not isinstance(content, dict):
        raise UserError(
            f"{file} is damaged ({content}); move {file.parent} away or choose another "
            "folder with --workdir."
        )
    return content
