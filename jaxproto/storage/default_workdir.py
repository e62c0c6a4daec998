"""Default names of run directories, and the check of their paths."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import ml_collections

from jaxproto.config import apply_variant, flatten
from jaxproto.config.fields import extended, fields_where
from jaxproto.config.paper_variants import READINGS
from jaxproto.errors import UserError, escape_unprintable, first_unprintable
from jaxproto.storage.run_folder import read_config

UNREADABLE = "\\[]*?"  # characters that orbax interprets in a path
LONGEST = 60  # characters of changed fields in a folder's name; more are a digest


def default_workdir(
    config: ml_collections.ConfigDict, plain: ml_collections.ConfigDict | None = None
) -> Path:
    """Returns `runs/<config>-<dataset>-seed<seed>`, with `-<changes>` if any.

    It depends on the configurations alone, so that equal ones find the run again.

    Args:
      config: of the run.
      plain: configuration without changes, such as `config.plain("FILE.py:ARG")`;
        None names no changes.
    """
    kind, _, rest = config.data.name.partition(":")
    by_path = ("csv", "folder", "npz")
    dataset = Path(rest).stem if kind in by_path else rest or kind
    dataset = re.sub(r"[^\w.-]+", "_", dataset)
    name = f"{config.name}-{dataset}-seed{config.seed}"
    return Path("runs") / "-".join([name, *_changes(config, plain or config)])


def _changes(config, plain) -> list[str]:
    """Returns the reading, and the fields that differ from the plain configuration."""
    now, readings = flatten(config), {"": flatten(plain)}
    for reading in READINGS.get(config.method.name, {}):
        other = ml_collections.ConfigDict(plain.to_dict())
        apply_variant(other, reading)
        readings[reading] = flatten(other)
    changed = {r: _changed(config, now, other) for r, other in readings.items()}
    reading = min(changed, key=lambda r: len(changed[r]) + bool(r))  # the plain first
    fields = changed[reading]
    words = "-".join(f"{path}={_word(value)}" for path, value in fields.items())
    if not re.fullmatch(rf"[\w.,=+-]{{0,{LONGEST}}}", words, re.ASCII):
        words = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:10]
    return [part for part in (reading, words) if part]


def _changed(config, now: Mapping, plain: Mapping) -> dict:
    """Returns the changed fields that the name of the folder lists.

    Name, data set and seed stand in it already. Location of the data and more rounds
    are left out: `check_config` lets such runs resume in the same folder.
    """
    silent = fields_where(names_run=False) | extended(config, plain)
    paths = sorted({*now, *plain} - silent)
    return {k: now.get(k) for k in paths if now.get(k) != plain.get(k)}


def _word(value) -> str:
    """Formats a value briefly: 20 for 20.0."""
    return f"{value}".removesuffix(".0")


def resolve_workdir(
    config: ml_collections.ConfigDict, plain: ml_collections.ConfigDict
) -> Path:
    """Returns the default folder, or the plain one if an older version began there."""
    path, old = default_workdir(config, plain), default_workdir(config)
    if path == old or path.exists():
        return path
    try:
        return old if read_config(old) == flatten(config) else path
    except UserError:
        return path


def check_path(path: Path):
    """Raises UserError for a path from which orbax cannot read checkpoints.

    Orbax takes some characters for those of a pattern, a backslash for a slash, and a
    part that ends in a colon for the scheme of a URL.
    """
    full = os.path.abspath(path)
    odd = [c for c in UNREADABLE if c in full]
    odd += [part for part in full.split("/") if part.endswith(":")]
    if odd := [first_unprintable(full)] * bool(first_unprintable(full)) or odd:
        raise UserError(
            f"the work directory {escape_unprintable(full)} has "
            f"{odd[0]} in its path, with which "
            "checkpoints cannot be read back; choose another with --workdir."
        )
