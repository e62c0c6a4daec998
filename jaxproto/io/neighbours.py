"""Imports of a user's file from its own folder, as `python FILE` finds them."""

import ast
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from jaxproto.errors import UserError


def add_folder(file: str | Path) -> str:
    """Puts the folder of a file on Python's search path; returns the folder.

    Raises:
      UserError: the file imports a module of its folder, and another module of that
        name has been imported before.
    """
    folder = Path(file).resolve().parent
    for name in _imported_names(Path(file)):
        _check_not_another(file, folder, name)
    sys.path.insert(0, str(folder))
    return str(folder)


@contextlib.contextmanager
def importable(file: str | Path) -> Iterator[None]:
    """Has the folder of a file on Python's search path; raises as `add_folder`."""
    folder = add_folder(file)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _check_not_another(file: str | Path, folder: Path, name: str):
    """Raises UserError if Python would take an earlier module for one of the folder."""
    known = getattr(sys.modules.get(name), "__file__", None)
    beside = [folder / f"{name}.py", folder / name / "__init__.py"]
    here = next(filter(Path.is_file, beside), None)
    if known and here and Path(known).resolve() != here.resolve():
        raise UserError(
            f"{file} imports {name!r} of its folder, but {known} has been imported as "
            f"{name!r} before: rename {here}."
        )


def _imported_names(file: Path) -> set[str]:
    """Returns the first parts of the modules that a file imports; none if broken."""
    try:
        nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    except (SyntaxError, ValueError):
        return set()
    names = [
        a.name for node in nodes if isinstance(node, ast.Import) for a in node.names
    ]
    names += [
        node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    return {name.partition(".")[0] for name in names}
