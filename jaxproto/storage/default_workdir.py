"""Default folder of a run, and checks of its path."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import ml_collections

from jaxproto.config import apply_variant, flatten, readings_of
from jaxproto.config.fields import extended, fields_where
from jaxproto.errors import UserError, escape_unprintable, first_unprintable
from jaxproto.storage import provenance
from jaxproto.storage.run_folder import read_config

UNREADABLE = "\\[]*?"  # characters that orbax misreads in a path
LONGEST = 60  # characters of changed fields in a folder's name, else their digest


def default_workdir(
    config: ml_collections.ConfigDict, plain: ml_collections.ConfigDict | None = None
) -> Path:
    """Returns `runs/<config>-<dataset>-seed<seed>[-<changes>]`.

    It depends on the configurations only, so that the same command finds its run again.

    Args:
      plain: configuration with which `config` is compared, such as
        `config.unmodified_config("FILE.py:ARG")`; None names no changes.
    """
    kind, _, rest = config.data.name.partition(":")
    is_path = kind in ("csv", "folder", "npz")
    dataset = Path(rest).stem if is_path else rest or kind
    dataset = re.sub(r"[^\w.-]+", "_", dataset)
    name = f"{config.name}-{dataset}-seed{config.seed}"
    return Path("runs") / "-".join([name, *_changes(config, plain or config)])


def _changes(config, plain) -> list[str]:
    """Returns a variant's name and the changed fields, as few as possible."""
    changed = {"": _changed_fields(config, flatten(plain))}
    for variant in readings_of(config.method.name):
        other = ml_collections.ConfigDict(plain.to_dict())
        apply_variant(other, variant)
        changed[variant] = _changed_fields(config, flatten(other))
    # naming a variant counts as one change
    variant = min(changed, key=lambda v: len(changed[v]) + bool(v))
    fields = changed[variant]
    # values as users type them: 20 for 20.0
    words = "-".join(f"{k}={v}".removesuffix(".0") for k, v in fields.items())
    if not re.fullmatch(rf"[\w.,=+-]{{0,{LONGEST}}}", words, re.ASCII):
        words = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:10]
    return [part for part in (variant, words) if part]


def _changed_fields(config, plain: Mapping) -> dict:
    """Returns the fields that distinguish two runs in the name of a folder.

    Name, data set and seed are in the name anyway. More rounds than planned and another
    `data_dir` continue the run in its folder.
    """
    values = flatten(config)
    ignored = fields_where(names_run=False) | extended(config, plain)
    paths = sorted({*values, *plain} - ignored)
    return {k: values.get(k) for k in paths if values.get(k) != plain.get(k)}


def resolve_workdir(
    config: ml_collections.ConfigDict, plain: ml_collections.ConfigDict
) -> Path:
    """Returns the default folder, or the one that an older version used."""
    path, old = default_workdir(config, plain), default_workdir(config)
    if path == old or path.exists():
        return path
    try:
        return old if read_config(old) == flatten(config) else path
    except UserError:
        return path


def for_code(
    path: Path,
    config: ml_collections.ConfigDict,
    same_code: bool = False,
    say: Callable[[str], object] = str,
) -> Path:
    """Returns a default folder, or one beside it if it has a run of other code.

    The other folder is named by the digest of the user's code, so that each version of
    the code finds its run again.

    Args:
      same_code: Whether the run goes on with other code in the folder.
      say: Prints a line that names the other folder.
    """
    changes = provenance.code_changes(path, config)
    if same_code or not changes:
        return path
    code = json.dumps(provenance.current(config)[provenance.CODE], sort_keys=True)
    digest = hashlib.sha256(code.encode()).hexdigest()[:10]
    other = path.with_name(f"{path.name}-code={digest}")
    say(f"{path} holds a run of other code: {'; '.join(changes)}. This is {other}.")
    return other


def check_path(path: Path):
    """Raises UserError for a path in which orbax could not read checkpoints.

    Orbax reads some characters as a pattern, a backslash as a slash, and a part that
    ends in a colon as the beginning of a URL.
    """
    full = os.path.abspath(path)
    bad = [first_unprintable(full), *(c for c in UNREADABLE if c in full)]
    bad += [part for part in full.split("/") if part.endswith(":")]
    if bad := [part for part in bad if part]:
        raise UserError(
            f"the work directory {escape_unprintable(full)} has {bad[0]} in its path, "
            "with which checkpoints cannot be read back; choose another with --workdir."
        )
