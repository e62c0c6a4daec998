"""Writers by name, and the extras of the package that their libraries come with."""

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxproto.callbacks.base import EVENTS, Callback
from jaxproto.errors import UserError, choose_from

ALWAYS = "jsonl"  # what every run writes: `metrics.jsonl`


class Writer(NamedTuple):
    """Where a writer is; its library is imported with the module."""

    module: str
    name: str
    extra: str = ""


WRITERS: dict[str, Writer | Callable[[], Callback]] = {
    "csv": Writer("jaxproto.callbacks.csv_file", "CsvWriter"),
    "tensorboard": Writer(
        "jaxproto.callbacks.tensorboard", "TensorBoard", "tensorboard"
    ),
    "wandb": Writer("jaxproto.callbacks.wandb", "Wandb", "wandb"),
    "mlflow": Writer("jaxproto.contrib.callbacks.mlflow", "Mlflow", "mlflow"),
    "aim": Writer("jaxproto.contrib.callbacks.aim", "Aim", "aim"),
}
CallbackSpec = str | Callable[[], Callback]  # a writer's name, or what makes a callback


def callback_factories(given: Sequence[CallbackSpec]) -> list[Callable[[], Callback]]:
    """What makes the callbacks of a run, or of each run of a sweep.

    Raises:
      UserError: there is no such writer, its library is not there, or what was given
        makes none.
    """
    names = list(dict.fromkeys(given))
    return [_maker(one) for one in names if one != ALWAYS]


def make_callbacks(given: Sequence[str | Callback]) -> list[Callback]:
    """The callbacks of one run, of which writers may be given by name.

    Raises:
      UserError: as `callback_factories`; or what was given is no callback.
    """
    found = []
    for one in given:
        if isinstance(one, str):
            found += [make() for make in callback_factories([one])]
        elif isinstance(one, type) or not is_callback(one):
            raise UserError(
                f"{one!r} is no callback: give an object that has one of the methods "
                f"{', '.join(EVENTS)}, or the name of a writer."
            )
        else:
            found.append(one)
    return found


def is_callback(candidate: object) -> bool:
    """Whether an object has a method of a callback."""
    return any(callable(getattr(candidate, event, None)) for event in EVENTS)


def _maker(given: CallbackSpec) -> Callable[[], Callback]:
    if not isinstance(given, str):
        if not callable(given):
            raise UserError(
                f"{given!r} makes no callback: each cell of a sweep needs its own, so "
                "give the class, or a function that makes one."
            )
        return given
    found = WRITERS[choose_from("writer", given, [ALWAYS, *WRITERS])]
    return _imported(given, found) if isinstance(found, Writer) else found


def _imported(name: str, writer: Writer) -> Callable[[], Callback]:
    """The class of a writer.

    Raises:
      UserError: its library cannot be imported.
    """
    try:
        return getattr(importlib.import_module(writer.module), writer.name)
    except ImportError as e:
        raise UserError(
            f"the writer {name} cannot be used: {' '.join(str(e).split())}. "
            f"pip install 'jaxproto[{writer.extra}]' installs what it needs."
        ) from e
