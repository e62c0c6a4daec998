"""The configuration of a run: its fields, its presets, and checks of its keys.

A configuration holds names and numbers only, so that it can be saved, compared and
overridden from the command line; `build.py` turns it into functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_collections

from jaxproto.config import choices, presets, ranges, registries, shipped
from jaxproto.config.readings import READINGS
from jaxproto.config.registries import FOLLOWING, NETWORKS, OPTIONS, default_name
from jaxproto.errors import UserError, pick
from jaxproto.methods import METHODS
from jaxproto.methods.history import BEFORE, FIRST_KEYS

FIRST = "digits"  # the data set where none is named
DEEPEST = 8  # nested fields of a configuration; its own are two deep


def default() -> ml_collections.ConfigDict:
    """Every field with its default; sources in the comments (N: ProtoNorm)."""
    return ml_collections.ConfigDict(
        {
            "name": "run",  # first part of the default work directory
            "seed": 0,  # networks, batches, participation
            "rounds": 300,  # N 5.1
            "eval_every": 1,
            "checkpoint_every": 10,
            "data": {
                "name": "digits",
                "data_dir": "",  # of prepared TFDS sets; "" is TFDS's own default
                "pixels": 0,  # height and width images are resized to; 0: as they are
                "vocab_size": 0,  # tokens of texts at most; 0: all training words
                "max_len": 200,  # words of a text that count (T's code)
                "min_texts": 5,  # of a node that tells a word, with data.name=nodes
                "clients": 20,  # N 5.1
                "partition": "dirichlet",  # N 5.1
                "alpha": 0.1,  # N 5.1, dirichlet, pfllib and quantity
                "classes_per_client": 2,  # CIFAR-10's in N's code, pathological
                "min_size": 2,  # examples per client, dirichlet and quantity
                "least_samples": 1,  # the same, pfllib and pfllib_pathological
                "pool": True,  # pool official parts, then split per client (N 5.1)
                "train_share": 0.75,  # N 5.1
                "seed": 1,  # docs/decisions.md#seeds
                "public_share": 0.0,  # of the examples, known to all
                "public_classes": 0.5,  # share of the classes they cover
                "public_source": "",  # a data set whose examples are public instead
            },
            "model": {
                "group": "digits",  # a group, or network names joined by commas
                "feat_dim": 64,
                "compute_dtype": "float32",  # of the bodies: float32, bfloat16
                "init": "independent",  # of clients; same: equal in an architecture
            },
            "method": {"name": "local"},
            "local": {
                "epochs": 1,  # N 5.1
                "batch_size": 32,  # N 5.1
                "order": "shuffled",  # shuffled, fixed: docs/decisions.md#batches
                "short": "wrap",  # clients below one batch: wrap, skip
                "optimizer_state": "restart",  # each round: restart, keep
            },
            "optimizer": {
                "name": "sgd",  # any optax optimiser
                "learning_rate": 0.01,  # N 5.1
                "momentum": 0.0,  # sgd only
                "weight_decay": 0.0,  # added to the gradient, as PyTorch's SGD does
                "clip_norm": 0.0,  # global norm; 0 is off
                "schedule": "constant",  # over rounds: exponential; cosine, down to 0
                "decay": 1.0,  # factor of the learning rate per round, exponential
            },
            "participation": {
                "law": "all",  # all, uniform, or another of participation.SAMPLERS
                "fraction": 1.0,  # uniform, beta, gamma, weibull, cyclic
                "beta_a": 1.0,  # these are FAST's
                "beta_b": 10.0,
                "gamma_shape": 10.0,
                "gamma_scale": 0.01,
                "weibull_shape": 10.0,
                "weibull_scale": 1 / 1.2,
                "cyclic_groups": 4,
                "circular_groups": 10,
                "dropout": 0.0,  # probability that a trained update is lost
            },
            "privacy": {
                "unit": "off",  # off, client, example
                "clip": 1.0,  # largest norm of what a unit contributes
                "noise": 1.0,  # standard deviation of a sum's noise, over clip
                "delta": 1e-5,  # of (epsilon, delta)
            },
            "wire": {  # format of values: float32, float16, bfloat16, int8
                "up": "float32",
                "down": "float32",
                "check": False,  # encode and decode every message of every round
            },
            "early_stopping": {  # writers.EarlyStopping
                "rule": "",  # of prediction; "": the first of the records
                "patience": 0,  # evaluations without improvement; 0 is off
                "least": 0.0,  # of accuracy, that is an improvement
            },
            "clients_at_once": "auto",  # auto, one, all, or a number
            "clients": {"store": "auto"},  # where they are between rounds
            "eval": {
                "clients": "all",  # or a number: a sample of them
                "metrics": "accuracy",  # and others by name, joined by commas
                "per_client": False,  # a table of clients for each evaluation
            },
        }
    )


def method_fields(name: str) -> dict:
    """A method's hyper-parameters that a configuration can hold, with defaults."""
    fields: dict[str, Any] = {"name": name}
    for key, default in registries.arguments(METHODS[name]).items():
        if key in OPTIONS:
            fields[key] = default_name(key, default)
        elif key in FOLLOWING:
            fields[key] = 0
        elif key in NETWORKS:
            fields[key] = NETWORKS[key]
        elif isinstance(default, bool | int | float | str):
            fields[key] = default
    first = {key: fields[key] for key in FIRST_KEYS.get(name, ())}
    return {**first, **fields}


def experiment(
    method: str, arg: str = FIRST, variants: Mapping[str, Mapping] | None = None
) -> ml_collections.ConfigDict:
    """A configuration of `method` changed by the presets named in `arg`.

    `experiment("protonorm", "digits")` is `configs/protonorm.py:digits`.

    Args:
      method: a name of `METHODS`.
      arg: names joined by commas: a data set of `presets.DATASETS` and variants of
        the method, in any order, applied from left to right after the data set.
      variants: name -> flat fields such as {"method.lam": 10.0}; the variant named
        as the data set is applied with it. A field may be a function of the
        configuration so far. `paper` and `code`, of `readings.READINGS`, come last.
        None takes those of the method's file in configs/.

    Raises:
      UserError: for a name that is neither.
    """
    readings = READINGS.get(method, {})
    variants = shipped.variants(method) if variants is None else variants
    variants = {**variants, **readings}
    names = sorted((n for n in arg.split(",") if n), key=readings.__contains__)
    for name in names:
        pick("preset", name, {*presets.DATASETS, *variants})
    datasets = [n for n in dict.fromkeys(names) if n in presets.DATASETS] or [FIRST]
    _check_one("data sets", arg, datasets)
    _check_one("readings", arg, [n for n in dict.fromkeys(names) if n in readings])
    config = default()
    config.name = method
    config.method = ml_collections.ConfigDict(method_fields(method))
    for name in [*datasets, *(n for n in names if n not in presets.DATASETS)]:
        apply(config, presets.DATASETS.get(name, {}))
        if name in presets.LAM and {"reg", "pull"} & {*config.method}:
            config.method.lam = presets.LAM[name]
        apply(config, variants.get(name, {}))
    return config


def _check_one(kind: str, arg: str, names: Sequence[str]):
    """Raises UserError for presets of which one alone can hold."""
    if len(names) > 1:
        raise UserError(
            f"the presets {arg!r} name {len(names)} {kind}, {' and '.join(names)}; "
            "leave one."
        )


def read(config: ml_collections.ConfigDict, reading: str):
    """Reads the method as `paper` or `code` does; "" leaves it as it is.

    Raises:
      UserError: the method has no such reading.
    """
    name = config.method.name
    if not reading:
        return
    if name not in READINGS:
        raise UserError(f"{name} has one reading only: leave {reading!r} out.")
    there = READINGS[name]
    apply(config, there[pick(f"reading of {name}", reading, there)])


def apply(config: ml_collections.ConfigDict, fields: Mapping):
    """Sets flat fields; a value that is a function gets the configuration."""
    config.update_from_flattened_dict(resolved(config, fields))


def resolved(config: ml_collections.ConfigDict, fields: Mapping) -> dict:
    """Flat fields whose functions have got the configuration."""
    return {k: v(config) if callable(v) else v for k, v in fields.items()}


def check_keys(config: Mapping, paths: Iterable[str]):
    """Raises UserError with a did-you-mean for a dotted path that does not exist."""
    for path in paths:
        node, seen = config, "config"
        for key in path.split("."):
            if not isinstance(node, Mapping | ml_collections.ConfigDict):
                raise UserError(f"{seen!r} is a value and has no field {key!r}.")
            pick(f"field of {seen!r}:", key, list(node))
            node, seen = node[key], f"{seen}.{key}"


def check(config: ml_collections.ConfigDict):
    """Raises UserError for missing, unknown or impossible fields."""
    want, have = default().to_dict(), flat(config)
    method = {k.removeprefix("method."): "" for k in have if k.startswith("method.")}
    check_keys({**want, "method": {"name": "", **method}}, have)
    missing = [p for p in flat(want) if p not in have]
    if missing:
        raise UserError(
            f"the configuration lacks {', '.join(missing)}; start from "
            "jaxproto.config.default() or from a file in configs/."
        )
    name = pick("method", have["method.name"], METHODS)
    for key in method:
        pick(f"field of method {name!r}:", key, method_fields(name))
    types = flat({**want, "method": method_fields(name)})
    for path, value in have.items():
        ranges.check_type(path, value, types[path])
    for path, own in {**ranges.RANGES, **ranges.of_method(name)}.items():
        if path in have:  # of a method, one that is left out is at its default
            ranges.check_range(path, have[path], own)
    choices.check_names(have)
    choices.check_together(config)


def data_fields(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The fields `data` of a run, with `data.seed` resolved where it follows `seed`."""
    data = ml_collections.ConfigDict(config.data.to_dict())
    if data.seed == ranges.FOLLOW:
        data.seed = config.seed
    return data


def flat(config) -> dict:
    """Dotted path -> value; tuples become lists as they do in JSON.

    Raises:
      UserError: it is nested deeper than any configuration.
    """
    return _flat(config, ())


def _flat(config, above: tuple[str, ...]) -> dict:
    if len(above) > DEEPEST:
        raise UserError(
            f"the configuration is nested more than {DEEPEST} deep at "
            f"{'.'.join(above)[:80]}; its fields are such as method.lam."
        )
    out: dict[str, Any] = {}
    for key, value in config.items():
        path = *above, str(key)
        if isinstance(value, Mapping | ml_collections.ConfigDict):
            out |= _flat(value, path)
        else:
            out[".".join(path)] = list(value) if isinstance(value, tuple) else value
    return out


def saved(given: Mapping) -> dict:
    """A configuration that was saved, flat; fields that did not exist then at default.

    Args:
      given: nested, of this version or an older one.
    """
    found = flat(given)
    name = found.get("method.name", "")
    known = isinstance(name, str) and name in METHODS
    fields = flat({"method": method_fields(name)}) if known else {}
    name = name if known else ""
    return {**flat(default()), **fields, **BEFORE.get(name, {}), **found}


def differences(old: Mapping, new: Mapping) -> list[str]:
    """One line per field that differs between two flat configurations."""
    keys = sorted({*old, *new})
    return [
        f"{k}: {old.get(k, 'absent')!r} there, {new.get(k, 'absent')!r} here"
        for k in keys
        if old.get(k, "absent") != new.get(k, "absent")
    ]
