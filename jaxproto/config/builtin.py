"""The configuration files that come with the package, wherever it is installed."""

import ast
import importlib.resources
import runpy
from collections.abc import Mapping
from pathlib import Path

SWEEPS = "sweeps"  # folder of those that have `get_sweep`
PACKAGE = Path(str(importlib.resources.files("jaxproto")))


def folder() -> Path:
    """Where they lie: inside an installed package, beside that of a clone."""
    inside = PACKAGE / "configs"
    return inside if inside.is_dir() else PACKAGE.parent / "configs"


def names() -> list[str]:
    """Those of methods and tables, then those of sweeps, as `find` takes them."""
    found = [p.stem for p in sorted(folder().glob("*.py"))]
    return found + [
        f"{SWEEPS}/{p.stem}" for p in sorted(folder().glob(f"{SWEEPS}/*.py"))
    ]


def short_name(path: str) -> str:
    """A path below `configs/` without it; of another folder the file's name."""
    path = path if not Path(path).name else str(Path(path).with_suffix(".py"))
    parts = Path(path.removeprefix("configs/")).parts
    return "/".join(parts if parts[:-1] == (SWEEPS,) else parts[-1:])


def find(file: str) -> str:
    """The path of "FILE.py:ARG"; a name that is no file may be that of a shipped one.

    `configs/fedproto.py`, `fedproto.py` and `fedproto` all find it from any folder,
    `sweeps/clients` that of a sweep; a path into another folder finds what is there
    alone.
    """
    path, colon, arg = file.partition(":")
    folders = (".", "configs", SWEEPS, f"configs/{SWEEPS}")
    if not path or Path(path).is_file() or str(Path(path).parent) not in folders:
        return file
    shipped = folder() / short_name(path)
    return f"{shipped}{colon}{arg}" if shipped.is_file() else file


def docstring_line(name: str) -> str:
    """The first line of a file's docstring."""
    text = (folder() / f"{name}.py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def variants(method: str) -> Mapping[str, Mapping]:
    """`VARIANTS` of the method's file; empty for a method of one's own."""
    file = folder() / f"{method}.py"
    return runpy.run_path(str(file)).get("VARIANTS", {}) if file.is_file() else {}
