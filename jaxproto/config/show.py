"""The text of `--print_config`: value, origin, choices and meaning of every field."""

from collections.abc import Sequence

from jaxproto.config import files, flags, presets
from jaxproto.config.factory_fields import table
from jaxproto.config.fields import flat
from jaxproto.config.paper_variants import READINGS


def text(config, arguments: Sequence[str]) -> str:
    """Returns two lines for every field of a configuration from a command line.

    Args:
      config: the configuration.
      arguments: --config and its overrides, as they were typed.
    """
    (*_, file), overridden = flags.config_flags(arguments)
    given = flat(files.load(file))
    method, out = given["method.name"], []
    fields = table(method)
    for path, value in flat(config).items():
        field = fields[path]
        if path in overridden:
            origin = "command line"
        elif path != "method.name" and given[path] == field.default:
            origin = "default"
        else:
            origin = origin_in(file, method, path)
        said = "follow" if (path, value) in flags.FOLLOWS.items() else value
        out.append(f"{path} = {said or repr(said)}  ({origin})")
        out.append(f"    {field.help}; {field.words}")
    return "\n".join(out) + "\n"


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
