"""Origin of functions, classes and modules: this package, a library, or the user."""

import os
import sys
import sysconfig
import types

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
STDLIB = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def file_of(value) -> str:
    """Returns the file of a module, class or function, or of a value's class.

    It is "" in a notebook. Generated code, such as that of data classes, has no file:
    that of its globals is taken.
    """
    if isinstance(value, types.FunctionType):
        file = value.__code__.co_filename
        return file_of_scope(value.__globals__) if file.startswith("<") else file
    if isinstance(value, types.ModuleType):
        return file_of_scope(vars(value))
    name = value.__module__ if isinstance(value, type) else type(value).__module__
    home = sys.modules.get(name) if name != "__main__" else None
    return file_of_scope(vars(home)) if home else ""


def file_of_scope(scope) -> str:
    """Returns the file of a module with these names; "" if it has none."""
    return str(scope.get("__file__") or "")


def top_module(value) -> str:
    """Returns the top-level module of a module, class or function."""
    if isinstance(value, types.FunctionType):  # wrappers change `__module__`
        name = str(value.__globals__.get("__name__"))
    else:
        name = value.__name__ if isinstance(value, types.ModuleType) else ""
    return (name or str(value.__module__)).partition(".")[0]


def in_package(file: str) -> bool:
    """Returns whether a file is one of this package."""
    return file.startswith(PACKAGE)


def in_library(file: str) -> bool:
    """Returns whether a file is one of Python or of an installed package."""
    parts = file.split(os.sep)
    return file.startswith(STDLIB) or bool(
        {"site-packages", "dist-packages"} & {*parts}
    )


def is_external(entry) -> bool:
    """Returns whether an entry of a registry is from outside the package's folder."""
    entry = getattr(entry, "func", entry)  # of a partial
    home = sys.modules.get(getattr(entry, "__module__", None) or "")
    named = file_of_scope(vars(home)) if home else ""  # that of a wrapped module
    return not (in_package(file_of(entry)) and in_package(named))
