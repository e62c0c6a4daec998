"""All that can be said of a configuration's fields: value, origin, choices, meaning."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxproto.config import files, flags, presets
from jaxproto.config.fields import flat
from jaxproto.config.hyperparameters import table
from jaxproto.config.readings import READINGS

DEFAULT = "default"
OVERRIDE = "command line"


class Line(NamedTuple):
    """One field."""

    path: str
    value: object
    origin: str  # default, a preset, a reading, the file, or the command line
    allowed: str
    meaning: str


def lines(config, arguments: Sequence[str]) -> Iterator[Line]:
    """Every field of a configuration that came from a command line.

    Args:
      config: the configuration.
      arguments: --config and its overrides, as they were typed.
    """
    (*_, file), overridden = flags.config_flags(arguments)
    given, overrides = flat(files.load(file)), {*overridden}
    name = given["method.name"]
    fields = table(name)
    for path, value in flat(config).items():
        field = fields[path]
        if path in overrides:
            origin = OVERRIDE
        elif path != "method.name" and given[path] == field.default:
            origin = DEFAULT
        else:
            origin = origin_in(file, name, path)
        follows = path in flags.FOLLOWS and value == flags.FOLLOWS[path]
        said = "follow" if follows else value
        yield Line(path, said, origin, field.words, field.help)


def origin_in(file: str, method: str, path: str) -> str:
    """Which preset or reading of "FILE.py:PRESETS" sets a field, or the file itself."""
    path_of_file, _, arg = file.partition(":")
    names = [n for n in arg.split(",") if n]
    for name in reversed(names):
        if path in READINGS.get(method, {}).get(name, {}):
            return f"reading {name}"
    for name in names if {*names} & {*presets.DATASETS} else [presets.FIRST, *names]:
        by_lam = path == "method.lam" and name in presets.LAM
        if path in presets.DATASETS.get(name, {}) or by_lam:
            return f"preset {name}"
    return path_of_file


def text(config, arguments: Sequence[str]) -> str:
    """The same for reading: two lines per field."""
    out = []
    for line in lines(config, arguments):
        value = repr(line.value) if line.value == "" else line.value
        out.append(f"{line.path} = {value}  ({line.origin})")
        out.append(f"    {line.meaning}; {line.allowed}")
    return "\n".join(out) + "\n"
