"""The floats of a configuration that are arguments of the compiled programs.

One program serves every learning rate, loss weight, share of the clients and so on:
these are its scalar arguments. Fields that decide a shape or a branch are part of the
program: whole numbers, names, floats that their method annotates with `STATIC`, and a
float that is 0 by default and still 0, which switches something off or leaves the
choice to the run (`optimizer.momentum`, `method.mu` of TinyProto).
"""

from collections.abc import Mapping

import ml_collections
import numpy as np

from jaxproto.config import features, fields
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import flatten
from jaxproto.core.types import ArrayLike
from jaxproto.experiment.sampler import max_rows

Floats = Mapping[str, ArrayLike | np.float32]  # dotted path -> scalar


def traced_floats(config: ml_collections.ConfigDict) -> dict[str, np.float32]:
    """Returns dotted path -> value of the floats that programs take as arguments."""
    values, unused = flatten(config), features.unused(config)
    return {
        path: np.float32(values[path])
        for path, field in all_fields(config.method.name).items()
        if field.program == fields.TRACED
        and path not in unused
        and not values[path] == field.default == 0
    }


def program_settings(config: ml_collections.ConfigDict) -> dict:
    """Returns the flat fields that the compiled programs of a run depend on.

    Runs that agree in these fields and in their data share programs.
    """
    ignored = {*traced_floats(config), *features.unused(config)}
    ignored |= fields.fields_where(program=fields.UNUSED)
    ignored |= fields.resumable(config, fields.MORE)
    settings = {
        **flatten(config),
        "data.seed": fields.resolved_data_fields(config).seed,
        "participation.room": max_rows(config),
    }
    return {k: v for k, v in settings.items() if k not in ignored}


def replace_floats(
    config: ml_collections.ConfigDict, values: Floats
) -> ml_collections.ConfigDict:
    """Returns the configuration with other, possibly traced, values."""
    replaced = ml_collections.ConfigDict(config.to_dict(), type_safe=False)
    for path, value in values.items():
        section, _, key = path.partition(".")
        replaced[section][key] = value
    return replaced
