"""The configuration files that come with the package, wherever it is installed."""

import importlib.resources
import runpy
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(str(importlib.resources.files("jaxproto")))


def folder() -> Path:
    """Where they lie: inside an installed package, beside that of a clone."""
    inside = PACKAGE / "configs"
    return inside if inside.is_dir() else PACKAGE.parent / "configs"


def find(file: str) -> str:
    """The path of "FILE.py:ARG"; a name that is no file may be that of a shipped one.

    `configs/fedproto.py`, `fedproto.py` and `fedproto` all find it from any folder; a
    path into another folder finds what is there alone.
    """
    path, colon, arg = file.partition(":")
    elsewhere = str(Path(path).parent) not in (".", "configs")
    if not path or elsewhere or Path(path).is_file():
        return file
    shipped = folder() / Path(path).with_suffix(".py").name
    return f"{shipped}{colon}{arg}" if shipped.is_file() else file


def variants(method: str) -> Mapping[str, Mapping]:
    """`VARIANTS` of the method's file; empty for a method of one's own."""
    file = folder() / f"{method}.py"
    return runpy.run_path(str(file)).get("VARIANTS", {}) if file.is_file() else {}
