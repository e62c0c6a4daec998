"""The folder of a run: whose it is, whether it is finished, who is using it."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import ml_collections

from jaxproto.config import differences, flat, read, registries, saved
from jaxproto.config.readings import READINGS
from jaxproto.data import text
from jaxproto.errors import UserError, escaped, hidden
from jaxproto.storage import records

VOCABULARY = "vocabulary.txt"
UNREADABLE = "\\[]*?"  # what orbax makes something else of in a path
LONGEST = 60  # characters of changed fields in a folder's name; more are a digest


def default(
    config: ml_collections.ConfigDict, plain: ml_collections.ConfigDict | None = None
) -> Path:
    """`runs/<config>-<dataset>-seed<seed>`, and `-<changes>` where there are some.

    Nothing but the configurations decides it, so that a run is found again by whoever
    makes them.

    Args:
      config: of the run.
      plain: with which it is compared, such as `config.plain("FILE.py:ARG")`; None
        names no changes.
    """
    kind, _, rest = config.data.name.partition(":")
    files = ("csv", "folder", "npz")
    dataset = Path(rest).stem if kind in files else rest or kind
    dataset = re.sub(r"[^\w.-]+", "_", dataset)
    name = f"{config.name}-{dataset}-seed{config.seed}"
    return Path("runs") / "-".join([name, *_changes(config, plain or config)])


def _changes(config, plain) -> list[str]:
    """A reading's name, and the fields that differ from the plain configuration."""
    here, readings = flat(config), {"": flat(plain)}
    for reading in READINGS.get(config.method.name, {}):
        other = ml_collections.ConfigDict(plain.to_dict())
        read(other, reading)
        readings[reading] = flat(other)
    changed = {r: _changed(config, here, there) for r, there in readings.items()}
    reading = min(changed, key=lambda r: len(changed[r]) + bool(r))  # the plain first
    fields = changed[reading]
    words = "-".join(f"{path}={_word(value)}" for path, value in fields.items())
    if not re.fullmatch(rf"[\w.,=+-]{{0,{LONGEST}}}", words, re.ASCII):
        words = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:10]
    return [part for part in (reading, words) if part]


def _changed(config, here: Mapping, there: Mapping) -> dict:
    """Fields that make it another run: not its name, data set and seed, named before.

    Nor where the data lie, and more rounds than planned: these go on with what is
    there, where `check_config` lets them.
    """
    named = {"name", "seed", "data.name", "data.data_dir"}
    if here["rounds"] > there["rounds"] and not registries.needs_rounds(config):
        named.add("rounds")
    paths = sorted({*here, *there} - named)
    return {k: here.get(k) for k in paths if here.get(k) != there.get(k)}


def _word(value) -> str:
    """A value as it was typed, more or less: 20 for 20.0."""
    return f"{value}".removesuffix(".0")


def chosen(config: ml_collections.ConfigDict, plain: ml_collections.ConfigDict) -> Path:
    """The default folder; the plain one where this run began before names had changes.

    Raises:
      UserError: a file in the plain folder is damaged.
    """
    path, old = default(config, plain), default(config)
    if path == old or path.exists():
        return path
    begun = _read_json(old / "config.json")
    return old if begun is not None and saved(begun) == flat(config) else path


def check_path(path: Path):
    """Raises UserError for a path in which orbax would not find its checkpoints again.

    It takes some characters for those of a pattern, a backslash for a slash, and a part
    that ends in a colon for the beginning of an address.
    """
    full = os.path.abspath(path)
    odd = [c for c in UNREADABLE if c in full]
    odd += [part for part in full.split("/") if part.endswith(":")]
    if odd := [hidden(full)] * bool(hidden(full)) or odd:
        raise UserError(
            f"the work directory {escaped(full)} has {odd[0]} in its path, with which "
            "checkpoints cannot be read back; choose another with --workdir."
        )


@contextlib.contextmanager
def claim(path: Path) -> Iterator[None]:
    """Holds the folder for one process.

    Raises:
      UserError: the folder cannot be written or be named so, or another process is
        running in it.
    """
    check_path(path)
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
