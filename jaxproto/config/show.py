"""Text of `--print_config`: value, origin, allowed values and meaning of fields."""

from collections.abc import Sequence

from jaxproto.config import files, flags, presets
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import flatten


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
            origin = preset_origin(file, method, path, from_file[path])
        shown = "follow" if (path, value) in flags.FOLLOWS.items() else value
        out.append(f"{path} = {shown or repr(shown)}  ({origin})")
        out.append(f"    {field.help}; {field.words}")
    return "\n".join(out) + "\n"


def preset_origin(file: str, method: str, path: str, value: object) -> str:
    """Returns which preset or reading of "FILE.py:PRESETS" gives a field its value.

    It is the file itself for the file's own variants and values.
    """
    path_of_file, _, arg = file.partition(":")
    names = [n for n in arg.split(",") if n]
    for name in reversed(names):
        if path in presets.readings_of(method).get(name, {}):
            return f"reading {name}"
    if not {*names} & {*presets.DATASETS}:
        names = [presets.DEFAULT_DATASET, *names]
    for name in names:
        fields = {**presets.DATASETS.get(name, {}), "method.lam": presets.LAM.get(name)}
        if fields.get(path) == value:
            return f"preset {name}"
    return path_of_file
