"""The configuration of a run: its fields, its presets, and checks of its keys.

A configuration holds names and numbers only, so that it can be saved, compared and
overridden from the command line; `build.py` turns it into functions.
"""

import difflib
import itertools
import math
import re
import runpy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from jaxproto.config import presets, registries, shipped
from jaxproto.config.readings import READINGS
from jaxproto.config.registries import FOLLOWING, NETWORKS, OPTIONS, default_name
from jaxproto.errors import UserError, pick
from jaxproto.methods import METHODS

FIRST = "digits"  # the data set where none is named


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
            "wire": {  # format of values: float32, float16, bfloat16, int8
                "up": "float32",
                "down": "float32",
                "check": False,  # encode and decode every message of every round
            },
            "clients_at_once": "auto",  # auto, one, all, or a number
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


FIRST_KEYS = {  # where configurations that were saved begin otherwise than the factory
    "protonorm": ("name", "lam", "alignment", "upscale"),
    "fedgh": ("name", "server_rate"),
}


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
    datasets = [n for n in names if n in presets.DATASETS] or [FIRST]
    config = default()
    config.name = method
    config.method = ml_collections.ConfigDict(method_fields(method))
    for name in [*datasets, *(n for n in names if n not in presets.DATASETS)]:
        apply(config, presets.DATASETS.get(name, {}))
        if name in presets.LAM and {"reg", "pull"} & {*config.method}:
            config.method.lam = presets.LAM[name]
        apply(config, variants.get(name, {}))
    return config


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


def load(file: str) -> ml_collections.ConfigDict:
    """The configuration of "FILE.py" or "FILE.py:ARG".

    Raises:
      UserError: there is no such file, it is no configuration file, or what its
        `get_config` raises.
    """
    path, _, arg = shipped.find(file).partition(":")
    if not Path(path).is_file():
        there = sorted(p.name for p in shipped.folder().glob("*.py"))
        beside = [p.name for p in Path(path).parent.glob("*.py")]
        name = Path(path).with_suffix(".py").name
        near = difflib.get_close_matches(name, [*beside, *there], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(
            f"there is no configuration file {path}.{hint} With the package come: "
            f"{', '.join(there)}."
        )
    try:
        get_config = runpy.run_path(path).get("get_config")
    except SyntaxError as e:
        raise UserError(f"{path} is no configuration file: not Python ({e}).") from e
    if get_config is None:
        raise UserError(
            f"{path} is no configuration file: it defines no get_config, as the files "
            "in configs/ do."
        )
    return get_config(*[arg] * bool(arg))


def with_neutral(arguments: Sequence[str]) -> list[str]:
    """Flags with the preset `neutral` where `data.name` is given and no preset is.

    Without it a data set of one's own would silently get the learning rate, batch size
    and network of the digits.
    """
    files, fields = config_flags(arguments)
    given = files[-1] if files and "data.name" in fields else ""
    return _renamed(arguments, given and _instead_of_digits(given))


def with_paths(arguments: Sequence[str]) -> list[str]:
    """Flags with the path of a shipped configuration file in place of its name."""
    files, _ = config_flags(arguments)
    return _renamed(arguments, shipped.find(files[-1]) if files else None)


def _renamed(arguments: Sequence[str], file: str | None) -> list[str]:
    """Flags whose --config is `file`, if that is one; all others as they are."""
    out = list(arguments)
    for i, argument in enumerate(arguments):
        flag, equals, _ = argument.partition("=")
        if not file or flag.lstrip("-") != "config" or flag == "config":
            continue
        if equals:
            out[i] = f"{flag}={file}"
        elif i + 1 < len(out):
            out[i + 1] = file
    return out


def _instead_of_digits(file: str) -> str | None:
    """`file` with the preset `neutral`, if it has none and falls back on the digits."""
    path, _, arg = file.partition(":")

    def named(*presets):
        return f"{path}:{','.join([*filter(None, [arg]), *presets])}"

    if FIRST in arg.split(","):
        return None
    try:
        implied, said = load(file), load(named(FIRST))
        load(named("neutral"))
    except Exception:  # a file of one's own that knows no presets may raise anything
        return None
    return named("neutral") if flat(implied) == flat(said) else None


def check_flags(arguments: Sequence[str]):
    """Raises UserError for a wrong file, preset or field among command-line flags."""
    files, fields = config_flags(arguments)
    if files and files[-1]:
        check_keys(load(files[-1]), fields)


def config_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What --config and --config.FIELD name on a command line."""
    files, fields = [], []
    for argument, following in itertools.pairwise([*arguments, ""]):
        flag, equals, value = argument.partition("=")
        name = flag.lstrip("-")
        if name == flag:  # no dash: not a flag
            continue
        if name == "config":
            files.append(value if equals else following)
        elif re.match(r"(no)?config\.", name):
            fields.append(name.partition(".")[2])
    return files, fields


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
        _check_type(path, value, types[path])
    for path, (fits, words) in RANGES.items():
        if not fits(have[path]):
            raise UserError(f"{path} is {have[path]}; it must be {words}.")


_LAW_FLOATS = (
    "beta_a",
    "beta_b",
    "gamma_shape",
    "gamma_scale",
    "weibull_shape",
    "weibull_scale",
)
_ABOVE = (lambda v: v > 0, "above 0")
_ONE = (lambda v: v >= 1, "at least 1")
_NONE = (lambda v: v >= 0, "0 (off) or more")
_SHARE = (lambda v: 0 <= v < 1, "at least 0 and below 1")
RANGES = {  # path -> fits, in words; data.* is checked where the data are divided
    "seed": (lambda v: 0 <= v < 2**32, "from 0 to 2**32 - 1"),
    "rounds": _ONE,
    "eval_every": _ONE,
    "checkpoint_every": _ONE,
    "data.clients": _ONE,
    "model.feat_dim": _ONE,
    "local.epochs": _ONE,
    "local.batch_size": _ONE,
    "optimizer.learning_rate": _ABOVE,
    "optimizer.momentum": _SHARE,
    "optimizer.weight_decay": _NONE,
    "optimizer.clip_norm": _NONE,
    "optimizer.decay": (lambda v: 0 < v <= 1, "above 0 and at most 1"),
    "participation.fraction": (lambda v: 0 < v <= 1, "above 0 and at most 1"),
    "participation.dropout": _SHARE,
    **{f"participation.{name}": _ABOVE for name in _LAW_FLOATS},
    "participation.cyclic_groups": _ONE,
    "participation.circular_groups": _ONE,
}
TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}


def _check_type(path, value, example):
    """Raises UserError unless `value` is what `example` is; a float may be whole."""
    want = type(example)
    kinds = (int, float) if want is float else want
    if not isinstance(value, kinds) or isinstance(value, bool) != (want is bool):
        raise UserError(f"{path} is {value!r}; it must be {TYPES[want]}.")
    if want is float and not math.isfinite(value):
        raise UserError(f"{path} is {value}; it must be finite.")


def flat(config) -> dict:
    """Dotted path -> value; tuples become lists as they do in JSON."""
    out: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping | ml_collections.ConfigDict):
            out |= {f"{key}.{k}": v for k, v in flat(value).items()}
        else:
            out[key] = list(value) if isinstance(value, tuple) else value
    return out


def saved(given: Mapping) -> dict:
    """A configuration that was saved, flat; fields that did not exist then at default.

    Args:
      given: nested, of this version or an older one.
    """
    found = flat(given)
    name = found.get("method.name", "")
    fields = flat({"method": method_fields(name)}) if name in METHODS else {}
    return {**flat(default()), **fields, **BEFORE.get(name, {}), **found}


BEFORE = {  # method -> what it did when a field of it did not exist yet
    "cps_ppa_cpkd": {"method.compare": "sparse"},
}


def differences(old: Mapping, new: Mapping) -> list[str]:
    """One line per field that differs between two flat configurations."""
    keys = sorted({*old, *new})
    return [
        f"{k}: {old.get(k, 'absent')!r} there, {new.get(k, 'absent')!r} here"
        for k in keys
        if old.get(k, "absent") != new.get(k, "absent")
    ]
