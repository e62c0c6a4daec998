"""Imports of a user's files, which register methods, networks and other entries."""

import importlib.util
import sys
from pathlib import Path

from jaxproto.errors import UserError, describe_failure
from jaxproto.io import neighbours

FLAG = "--import"


def import_file(file: str) -> str:
    """Imports a file as a module with the name of the file; returns its path.

    Raises:
      UserError: there is no such file, it fails, or a module has its name.
    """
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise UserError(
            f"{FLAG}={file}: no such Python file; give one that registers a method or "
            "a network, such as mine.py."
        )
    if path.stem in sys.modules:
        raise UserError(
            f"{FLAG}={file}: a module {path.stem!r} exists already; rename the file."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    neighbours.add_folder(path)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as e:
        del sys.modules[path.stem]  # as `import` does
        if isinstance(e, UserError) or not isinstance(e, Exception):
            raise
        raise UserError(f"{FLAG}={file} fails: {describe_failure(e)}.") from e
    return str(path)


def import_missing(files: str):
    """Imports the files of a run in a process that another process has started.

    A module of its name counts as the file, such as a copy of it on this machine.

    Args:
      files: the field `imports` of the configuration.

    Raises:
      UserError: as `import_file`.
    """
    for file in filter(None, files.split(",")):
        if Path(file).stem not in sys.modules:
            import_file(file)
