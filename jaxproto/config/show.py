"""Text of `--print_config`: value, origin, allowed values and meaning of fields."""

from collections.abc import Sequence

from jaxproto.config import files, flags, presets
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import flatten
from jaxproto.config.paper_variants import READINGS


def format_fields(config, arguments: Sequence[str]) -> str:
    """Returns two lines for every field of a configuration from a command line.

    Args:
      arguments: --config and its overrides, as typed.
    """
    (*_, file), overridden = flags.config_flags(arguments)
    from_file = flatten(files.load(file))
    method, out = from_file["method.name"], []
    fields = all_fields(method)
    for path, value in flatten(config).items():
        field = fields[path]
        if path in overridden:
            origin = "command line"
        elif path != "method.name" and from_file[path] == field.default:
            origin = "default"
        else:
            origin = preset_origin(file, method, path)
        shown = "follow" if (path, value) in flags.FOLLOWS.items() else value
        out.append(f"{path} = {shown or repr(shown)}  ({origin})")
        out.append(f"    {field.help}; {field.words}")
    return "\n".join(out) + "\n"


def preset_origin(file: str, method: str, path: str) -> str:
    """Returns which preset or variant of "FILE.py:PRESETS" sets a field."""
    path_of_file, _, arg = file.partition(":")
    names = [n for n in arg.split(",") if n]
    for name in reversed(names):
        if path in READINGS.get(method, {}).get(name, {}):
            return f"reading {name}"
    if not {*names} & {*presets.DATASETS}:
        names = [presets.DEFAULT_DATASET, *names]
    for name in names:
        sets_lam = path == "method.lam" and name in presets.LAM
        if path in presets.DATASETS.get(name, {}) or sets_lam:
            return f"preset {name}"
    return path_of_file
