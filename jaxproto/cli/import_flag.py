"""The flag --import of every command: files that register methods and networks."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxproto.errors import UserError, describe_failure
from jaxproto.io import neighbours

FLAG = "--import"
imported: list[str] = []  # files, as given on the command line


def import_files(arguments: Sequence[str]) -> list[str]:
    """Imports the files of all --import=FILE; returns the other arguments."""
    rest, files = [], []
    words = iter(arguments)
    for word in words:
        flag, equals, file = word.partition("=")
        if flag == FLAG:
            files.append(file if equals else next(words, ""))
        else:
            rest.append(word)
    imported[:] = [_import(file) for file in files]
    return rest


def _import(file: str) -> str:
    """Imports a file as a module with the name of the file; returns its path."""
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
    except UserError:
        raise
    except Exception as e:  # a user's file may raise anything
        raise UserError(f"{FLAG}={file} fails: {describe_failure(e)}.") from e
    return str(path)
