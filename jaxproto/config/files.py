"""Configuration files: "FILE.py:ARG" loaded, and configurations of sweep files."""

import difflib
import inspect
import os
import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import ml_collections

from jaxproto.config import builtin, presets
from jaxproto.config.typed import WrongType, make_configuration
from jaxproto.errors import UserError, shorten
from jaxproto.io import neighbours
from jaxproto.methods import METHODS

T = TypeVar("T")


def load(file: str) -> ml_collections.ConfigDict:
    """Returns the configuration of "FILE.py" or "FILE.py:ARG".

    Raises:
      UserError: there is no such file, it is not a configuration file, or its
        `get_config` fails, with file and line.
    """
    path, _, arg = builtin.find(file).partition(":")
    if not Path(path).is_file():
        raise UserError(_missing_file_message(path))

    def call() -> object:
        get_config = runpy.run_path(path).get("get_config")
        if not callable(get_config):
            raise UserError(
                f"{path} is no configuration file: it defines no get_config, as the "
                "files in configs/ do."
            )
        return get_config(*[arg] * bool(arg))

    with neighbours.importable(path):
        config = _locate_errors(path, call)
    if not isinstance(config, ml_collections.ConfigDict):
        raise UserError(
            f"{path}: get_config returns {type(config).__name__}, no ConfigDict; start "
            "from jaxproto.config.experiment."
        )
    return config


def from_name(
    config: ml_collections.ConfigDict | Mapping | str | os.PathLike,
) -> ml_collections.ConfigDict:
    """Returns a configuration of a name such as "protonorm:digits", a file or a dict.

    Raises:
      UserError: it is none of these.
    """
    if isinstance(config, str | os.PathLike):
        return load(os.fspath(config))
    if isinstance(config, Mapping):
        return make_configuration(config)
    if not isinstance(config, ml_collections.ConfigDict):
        raise UserError(
            f"the configuration is {shorten(config)}; it must be one of config.load or "
            "config.experiment, a name such as 'fedproto:digits', or a dict of all "
            "fields."
        )
    return config


def _locate_errors(path: str, call: Callable[[], T]) -> T:
    """Returns `call()`; errors in the file become a UserError with file and line."""
    try:
        return call()
    except WrongType as e:
        raise UserError(f"{_location(path, e)}: {e}") from e
    except UserError:
        raise
    except (SyntaxError, UnicodeDecodeError) as e:
        raise UserError(f"{path} is no configuration file: not Python ({e}).") from e
    except (Exception, SystemExit) as e:
        message = " ".join(str(e).split())[:300] or "without a message"
        name = type(e).__name__
        raise UserError(f"{_location(path, e)}: {name}: {message}") from e


def _location(path: str, error: BaseException) -> str:
    """Returns a configuration file, and its last line that an error crossed."""
    frames, full = traceback.extract_tb(error.__traceback__), os.path.abspath(path)
    lines = [f.lineno for f in frames if os.path.abspath(f.filename) == full]
    return f"{path}, line {lines[-1]}" if lines else path


def sweep_axes(file: str):
    """Returns the axes of a sweep: the result of `get_sweep` of "FILE.py:ARG".

    `get_sweep` is called with `ARG` if it has a parameter.

    Raises:
      UserError: the file has no `get_sweep`, or it fails.
    """
    path, _, arg = builtin.find(file).partition(":")
    load(file)
    with neighbours.importable(path):
        get_sweep = runpy.run_path(path).get("get_sweep")
        if not callable(get_sweep):
            raise UserError(
                f"{path} defines no get_sweep: give the axes of the sweep, such as "
                "--sweep=seed=0,1,2."
            )
        given = [arg] * bool(arg and inspect.signature(get_sweep).parameters)
        return _locate_errors(path, lambda: get_sweep(*given))


def parse_sweep_arg(arg: str, methods: Sequence[str], dataset: str) -> tuple[str, str]:
    """Returns the method and the presets that a sweep file's `ARG` names.

    Args:
      arg: names joined by commas: a method, and presets of its configuration.
      methods: the methods that may be named; the first is the default.
      dataset: default data set preset.

    Raises:
      UserError: several methods are named.
    """
    names = [name for name in arg.split(",") if name]
    chosen = [name for name in dict.fromkeys(names) if name in methods]
    if len(chosen) > 1:
        raise UserError(f"{arg!r} names {len(chosen)} methods; sweep over each alone.")
    rest = [name for name in names if name not in methods]
    if not {*rest} & {*presets.DATASETS}:
        rest = [dataset, *rest]
    return chosen[0] if chosen else methods[0], ",".join(rest)


def paper_width_config(name: str, arg: str, first: str) -> ml_collections.ConfigDict:
    """Returns a sweep's configuration at the widths of the papers' tables.

    Args:
      name: name of the sweep.
      arg: as in `parse_sweep_arg`; the default data set is CIFAR-100.
      first: default method.
    """
    method, names = parse_sweep_arg(arg, [first, *METHODS], "cifar100")
    config = presets.experiment(method, names)
    config.name = f"{name}-{method}"
    presets.apply_fields(config, presets.TABLES.get(method, presets.PROTONORM))
    return config


def _missing_file_message(path: str) -> str:
    """Returns the message for a file that does not exist."""
    names = builtin.names()
    beside = [
        p.stem
        for p in Path(path).parent.glob("*.py")
        if p.is_file() and "def get_config(" in p.read_text(errors="replace")
    ]
    name = builtin.short_name(path).removesuffix(".py")
    near = difflib.get_close_matches(name, [*names, *beside], n=1)
    hint = f" Did you mean '{near[0]}.py'?" if near else ""
    reason = "it is no regular file" if os.path.exists(path) else "no such file"
    return (
        f"there is no configuration file {path} ({reason}).{hint} With the package "
        f"come: {', '.join(f'{name}.py' for name in names)}."
    )


def unmodified_config(file: str) -> ml_collections.ConfigDict:
    """Returns the configuration with which the default folder's name is compared.

    It has only the preset of the data set, without variants. If that changes name,
    method or data set, as in files whose `ARG` is not a list of presets, it has all of
    `ARG`.
    """
    full = load(file)
    path, _, arg = file.partition(":")
    names = [n for n in arg.split(",") if n in presets.DATASETS]
    try:
        plain = load(f"{path}:{','.join(names)}" if names else path)
    except UserError:
        return full

    def prefix(config):  # of the folder's name
        return config.name, config.method.name, config.data.name

    return plain if prefix(plain) == prefix(full) else full
