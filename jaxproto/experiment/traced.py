"""The floats of a configuration that are arguments of the compiled programs.

A program is the same for every learning rate, weight of a loss, share of the clients
and so on: these are scalars that it is called with. What decides a shape or a branch
stays part of the program: whole numbers, names, and a float at 0 where 0 is its default
and switches something off or leaves its choice to the run (`optimizer.momentum`,
`method.mu` of TinyProto). So does a float that its method annotates with `STATIC`.
"""

from collections.abc import Mapping

import ml_collections
import numpy as np

from jaxproto.config import fields
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import flatten
from jaxproto.experiment.sampler import max_rows
from jaxproto.privacy import OFF
from jaxproto.types import ArrayLike

Floats = Mapping[str, ArrayLike | np.float32]  # dotted path -> scalar


def traced_floats(config: ml_collections.ConfigDict) -> dict[str, np.float32]:
    """Dotted path -> value of every float that programs of the run take as argument."""
    given, unused = flatten(config), _of_privacy(config)
    return {
        path: np.float32(given[path])
        for path, field in all_fields(config.method.name).items()
        if field.program == fields.TRACED
        and path not in unused
        and not given[path] == field.default == 0
    }


def _of_privacy(config: ml_collections.ConfigDict) -> set[str]:
    """Fields that mean nothing where privacy is off."""
    off = config.privacy.unit == OFF
    return {"privacy.clip", "privacy.noise"} if off else set()


def program_settings(config: ml_collections.ConfigDict) -> dict:
    """What the compiled programs of a run follow from, besides its data: flat fields.

    Runs that agree in them and have the same data share their programs.
    """
    free = {*traced_floats(config), *_of_privacy(config)}
    free |= fields.fields_where(program=fields.UNUSED) | fields.resumable(
        config, fields.MORE
    )
    settings = {
        **flatten(config),
        "data.seed": fields.resolved_data_fields(config).seed,
        "participation.room": max_rows(config),
    }
    return {k: v for k, v in settings.items() if k not in free}


def replace_floats(
    config: ml_collections.ConfigDict, values: Floats
) -> ml_collections.ConfigDict:
    """The configuration with other values, such as traced ones, for some fields."""
    made = ml_collections.ConfigDict(config.to_dict(), type_safe=False)
    for path, value in values.items():
        group, _, field = path.partition(".")
        made[group][field] = value
    return made
