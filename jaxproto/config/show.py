"""The text of `--print_config`: value, origin, choices and meaning of every field."""

from collections.abc import Sequence

from jaxproto.config import files, flags, presets
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import flatten
from jaxproto.config.paper_variants import READINGS


def format_fields(config, arguments: Sequence[str]) -> str:
    """Returns two lines for every field of a configuration from a command line.

    Args:
      config: the configuration.
      arguments: --config and its overrides, as they were typed.
    """
    (*_, file), overridden = flags.config_flags(arguments)
    given = flatten(files.load(file))
    method, out = given["method.name"], []
    fields = all_fields(method)
    for path, value in flatten(config).items():
        field = fields[path]
        if path in overridden:
            origin = "command line"
        elif path != "method.name" and given[path] == field.default:
            origin = "default"
        else:
            origin = preset_origin(file, method, path)
        said = "follow" if (path, value) in flags.FOLLOWS.items() else value
        out.append(f"{path} = {said or repr(said)}  ({origin})")
        out.append(f"    {field.help}; {field.words}")
    return "\n".join(out) + "\n"


def preset_origin(file: str, method: str, path: str) -> str:
    """Which preset or reading of "FILE.py:PRESETS" sets a field, or the file itself."""
    path_of_file, _, arg = file.partition(":")
    names = [n for n in arg.split(",") if n]
    for name in reversed(names):
        if path in READINGS.get(method, {}).get(name, {}):
            return f"reading {name}"
    for name in (
        names if {*names} & {*presets.DATASETS} else [presets.DEFAULT_DATASET, *names]
    ):
        by_lam = path == "method.lam" and name in presets.LAM
        if path in presets.DATASETS.get(name, {}) or by_lam:
            return f"preset {name}"
    return path_of_file
