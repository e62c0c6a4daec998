"""Configuration files: what "FILE.py:ARG" holds, and what is plain of it."""

import difflib
import inspect
import os
import runpy
import traceback
from collections.abc import Sequence
from pathlib import Path

import ml_collections

from jaxproto.config import builtin, presets
from jaxproto.errors import UserError
from jaxproto.methods import METHODS


def load(file: str) -> ml_collections.ConfigDict:
    """The configuration of "FILE.py" or "FILE.py:ARG".

    Raises:
      UserError: there is no such file, it is no configuration file, or what its
        `get_config` raises, with file and line.
    """
    path, _, arg = builtin.find(file).partition(":")
    if not Path(path).is_file():
        raise UserError(_missing(path))
    try:
        get_config = runpy.run_path(path).get("get_config")
        if not callable(get_config):
            raise UserError(
                f"{path} is no configuration file: it defines no get_config, as the "
                "files in configs/ do."
            )
        made = get_config(*[arg] * bool(arg))
    except UserError:
        raise
    except (SyntaxError, UnicodeDecodeError) as e:
        raise UserError(f"{path} is no configuration file: not Python ({e}).") from e
    except (Exception, SystemExit) as e:
        raise UserError(f"{_where(path, e)}: {type(e).__name__}: {_first(e)}") from e
    if not isinstance(made, ml_collections.ConfigDict):
        raise UserError(
            f"{path}: get_config returns {type(made).__name__}, no ConfigDict; start "
            "from jaxproto.config.experiment."
        )
    return made


def sweep_axes(file: str):
    """What `get_sweep` of "FILE.py:ARG" returns: the axes of a sweep.

    It gets `ARG`, as `get_config` does, if it takes an argument.

    Raises:
      UserError: the file has none, or it fails.
    """
    path, _, arg = builtin.find(file).partition(":")
    load(file)
    get_sweep = runpy.run_path(path).get("get_sweep")
    if not callable(get_sweep):
        raise UserError(
            f"{path} defines no get_sweep: give the axes of the sweep, such as "
            "--sweep=seed=0,1,2."
        )
    try:
        takes = inspect.signature(get_sweep).parameters
        return get_sweep(*[arg] * bool(arg and takes))
    except UserError:
        raise
    except (Exception, SystemExit) as e:
        raise UserError(f"{_where(path, e)}: {type(e).__name__}: {_first(e)}") from e


def parse_sweep_arg(arg: str, methods: Sequence[str], dataset: str) -> tuple[str, str]:
    """The method and the presets that the `ARG` of a sweep's file names.

    Args:
      arg: names joined by commas: a method, and presets of its configuration.
      methods: of which one may be named; the first where none is.
      dataset: the preset where no data set is named.

    Raises:
      UserError: several methods are named.
    """
    names = [name for name in arg.split(",") if name]
    found = [name for name in dict.fromkeys(names) if name in methods]
    if len(found) > 1:
        raise UserError(f"{arg!r} names {len(found)} methods; sweep over each alone.")
    rest = [name for name in names if name not in methods]
    if not {*rest} & {*presets.DATASETS}:
        rest = [dataset, *rest]
    return [*found, *methods][0], ",".join(rest)


def paper_width_config(name: str, arg: str, first: str) -> ml_collections.ConfigDict:
    """A sweep's configuration of any method at the widths of the papers' tables.

    Args:
      name: of the sweep.
      arg: as in `parse_sweep_arg`; CIFAR-100 where no data set is named.
      first: the method where none is named.
    """
    method, given = parse_sweep_arg(arg, [first, *METHODS], "cifar100")
    made = presets.experiment(method, given)
    made.name = f"{name}-{method}"
    presets.apply_fields(made, presets.TABLES.get(method, presets.PROTONORM))
    return made


def _missing(path: str) -> str:
    """What to say of a file that is not there."""
    there = [f"{name}.py" for name in builtin.names()]
    beside = [p.name for p in Path(path).parent.glob("*.py") if _is_config(p)]
    stems = {name.removesuffix(".py"): name for name in (*there, *beside)}
    stem = builtin.short_name(path).removesuffix(".py")
    near = difflib.get_close_matches(stem, stems, n=1)
    hint = f" Did you mean {stems[near[0]]!r}?" if near else ""
    kind = "it is no regular file" if os.path.exists(path) else "no such file"
    return (
        f"there is no configuration file {path} ({kind}).{hint} With the package come: "
        f"{', '.join(there)}."
    )


def _is_config(path: Path) -> bool:
    """Whether a file of Python could be meant: `main.py` is none."""
    return path.is_file() and "def get_config(" in path.read_text(errors="replace")


def _where(path: str, error: BaseException) -> str:
    """File and line where a configuration file fails, of its own lines the last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if os.path.abspath(f.filename) == os.path.abspath(path)]
    return f"{path}, line {own[-1].lineno}" if own else path


def _first(error: BaseException) -> str:
    """The text of an exception in one line."""
    return " ".join(str(error).split())[:300] or "without a message"


def unmodified_config(file: str) -> ml_collections.ConfigDict:
    """What the default folder of a run of "FILE.py:ARG" is named after.

    The configuration of the file without overrides and with no preset but that of the
    data set; where this is another method or another name, as in files that take
    something else than presets, the file's with all of `ARG`.
    """
    whole = load(file)
    path, _, arg = file.partition(":")
    names = [n for n in arg.split(",") if n in presets.DATASETS]
    try:
        bare = load(f"{path}:{','.join(names)}" if names else path)
    except UserError:
        return whole
    return bare if _named(bare) == _named(whole) else whole


def _named(config) -> tuple:
    """What a folder's name begins with."""
    return config.name, config.method.name, config.data.name
