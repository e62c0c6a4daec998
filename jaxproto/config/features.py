"""Features of a run that fields of their own switch on, such as differential privacy.

Optional layers declare them in the table `FEATURES` of their `plugin.py`, in the order
in which they are applied to a run. The rest of a run knows none of them.
"""

import functools
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_collections

from jaxproto import plugins
from jaxproto.config.field import OFF, Field


def nothing(*args) -> dict:
    """Returns an empty dict."""
    return {}


class Feature(NamedTuple):
    """Fields of a feature, and what it does where its switch is not "off".

    `config` is the configuration of the run. Errors are `UserError`.
    """

    switch: str  # field that is "off" without the feature
    fields: Mapping[str, Field]  # dotted path -> field, of one section
    unused: tuple[str, ...] = ()  # fields of others without effect if it is off
    check: Callable = nothing  # config, also if off; raises before data are read
    # config, data set, cohorts; raises before compilation
    check_data: Callable = nothing
    arguments: Mapping[str, Callable] = {}  # argument of a method -> config -> value
    # config, cohorts, floats -> parts, name -> network, data set -> name -> array that
    # programs take; these networks have equally many operations on all platforms
    arrays: Callable = nothing
    # parts, config, its arrays, data set -> parts with the feature
    wrap: Callable = lambda parts, *_: parts
    # config, experiment, function from rounds to their contexts (None: by the seed)
    # -> rounds done -> entries of a record
    account: Callable = lambda config, exp, context: nothing
    files: Callable = nothing  # config -> field -> arrays of the file that it names


@functools.cache
def table() -> Mapping[str, Feature]:
    """Returns all features by name, in the order in which they are applied."""
    places = plugins.table("FEATURES")
    return {name: pkgutil.resolve_name(place) for name, place in places.items()}


def declared() -> dict[str, Field]:
    """Returns the fields of all features."""
    return {path: f for each in table().values() for path, f in each.fields.items()}


def _is_on(feature: Feature, config: Mapping | ml_collections.ConfigDict) -> bool:
    section, _, key = feature.switch.partition(".")
    return config[section][key] != OFF


def active(config: ml_collections.ConfigDict) -> list[Feature]:
    """Returns the features that a configuration switches on."""
    return [feature for feature in table().values() if _is_on(feature, config)]


def check(config: ml_collections.ConfigDict):
    """Checks the fields of all features, whether they are on or off."""
    for feature in table().values():
        feature.check(config)


def unused(config: ml_collections.ConfigDict) -> set[str]:
    """Returns the fields without effect because the feature that needs them is off."""
    off = [feature for feature in table().values() if not _is_on(feature, config)]
    own = {path for feature in off for path in feature.fields if path != feature.switch}
    return own.union(*(feature.unused for feature in off))


def arguments(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the values of the arguments of methods that features give."""
    return {
        name: value(config)
        for feature in active(config)
        for name, value in feature.arguments.items()
    }


def arrays(config: ml_collections.ConfigDict, *built) -> dict[str, Any]:
    """Returns the arrays of all active features, by name."""
    return functools.reduce(
        lambda a, feature: a | feature.arrays(config, *built), active(config), {}
    )


def wrap(parts, config: ml_collections.ConfigDict, values: Mapping, dataset):
    """Returns the parts of a federation with all active features."""
    for feature in active(config):
        parts = feature.wrap(parts, config, values, dataset)
    return parts


def account(
    config: ml_collections.ConfigDict, exp, context: Callable | None = None
) -> Callable[[int], dict[str, dict]]:
    """Returns the function from rounds done to the features' entries of a record."""
    accounts = [feature.account(config, exp, context) for feature in active(config)]
    return lambda rounds: functools.reduce(
        lambda entries, entry: entries | entry(rounds), accounts, {}
    )
