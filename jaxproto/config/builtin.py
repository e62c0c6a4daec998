"""The configuration files that come with the package, wherever it is installed."""

import ast
import importlib.resources
import runpy
from collections.abc import Mapping
from pathlib import Path

SWEEPS = "sweeps"  # folder of the files with `get_sweep`
PACKAGE = Path(str(importlib.resources.files("jaxproto")))


def folder() -> Path:
    """Returns the folder `configs` of an installed package or of a clone."""
    inside = PACKAGE / "configs"
    return inside if inside.is_dir() else PACKAGE.parent / "configs"


def names() -> list[str]:
    """Returns the names that `find` takes: methods and tables, then sweeps."""
    paths = [*sorted(folder().glob("*.py")), *sorted(folder().glob(f"{SWEEPS}/*.py"))]
    return [str(p.relative_to(folder()).with_suffix("")) for p in paths]


def short_name(path: str) -> str:
    """Returns a path relative to `configs/`, or the file's name elsewhere."""
    parts = Path(f"{path.removeprefix('configs/').removesuffix('.py')}.py").parts
    return "/".join(parts if parts[:-1] == (SWEEPS,) else parts[-1:])


def find(file: str) -> str:
    """Returns "PATH:ARG" for "FILE.py:ARG", where FILE may name a built-in file.

    `configs/fedproto.py`, `fedproto.py` and `fedproto` find the built-in file from any
    folder, and `sweeps/clients` that of a sweep. An existing file at the path comes
    first.
    """
    path, colon, arg = file.partition(":")
    folders = (".", "configs", SWEEPS, f"configs/{SWEEPS}")
    if not path or Path(path).is_file() or str(Path(path).parent) not in folders:
        return file
    built_in = folder() / short_name(path)
    return f"{built_in}{colon}{arg}" if built_in.is_file() else file


def docstring_line(name: str) -> str:
    """Returns the first line of a file's docstring."""
    text = (folder() / f"{name}.py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def variants(method: str) -> Mapping[str, Mapping]:
    """Returns `VARIANTS` of a method's file; none for a user's own method."""
    file = folder() / f"{method}.py"
    return runpy.run_path(str(file)).get("VARIANTS", {}) if file.is_file() else {}
