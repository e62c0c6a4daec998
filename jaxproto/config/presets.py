"""Presets of data sets for all methods, and configurations made of them.

Comments name the sources: N is ProtoNorm, T TinyProto, S CPS + PPA + CPKD.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_collections

from jaxproto import plugins
from jaxproto.config import builtin
from jaxproto.config.factory_fields import default_config
from jaxproto.errors import UserError, choose_from
from jaxproto.methods import METHODS
from jaxproto.methods.options import OPTIONS

DEFAULT_DATASET = "digits"  # if --config names none
WIDE = {  # for every method, so that all runs have the same clients
    "data.partition": "pfllib",  # as in all released code
    "data.min_size": 40,  # newer PFLlib's; for --config.data.partition=dirichlet
    "model.feat_dim": 500,  # T 5.1, S 5.1; N 5.1 has 512, as in `PROTONORM`
}
PAPERS = {  # T, S and N Section 5.1, images; hours on a CPU
    **WIDE,
    "model.group": "Ht0",
    "rounds": 300,
    "checkpoint_every": 5,
}
QUICK = {  # ours, for 28 x 28 pixels
    **WIDE,
    "data.clients": 10,
    "model.group": "light",
    "rounds": 20,
    "checkpoint_every": 5,
}
DATASETS: dict[str, dict[str, Any]] = {
    "neutral": {  # for a user's `data.name`: all that is known is that it has images
        **WIDE,
        "model.group": "light",
        "rounds": 100,
    },
    "digits": {
        "data.name": "digits",
        "data.min_size": 20,
        "model.group": "digits",
        "model.feat_dim": 64,
        "rounds": 60,
        "local.batch_size": 10,
        "optimizer.learning_rate": 0.05,
        "eval_every": 2,
    },
    "spiral": {  # N Appendix A and Section 3.2
        "data.name": "spiral",
        "data.clients": 10,
        "data.min_size": 40,
        "model.group": "spiral_mlp",
        "model.feat_dim": 2,
        "rounds": 200,
        "eval_every": 10,
    },
    "mnist": {**QUICK, "data.name": "tfds:mnist"},
    "fashion_mnist": {**QUICK, "data.name": "tfds:fashion_mnist"},
    "cifar10": {**PAPERS, "data.name": "tfds:cifar10"},
    "cifar100": {**PAPERS, "data.name": "tfds:cifar100"},
    "flowers102": {  # docs/decisions.md#pixels
        **PAPERS,
        "data.name": "tfds:oxford_flowers102",
        "data.pixels": 64,
    },
    "gtsrb": {  # the 39,270 images of torchvision's split: docs/decisions.md#gtsrb
        **PAPERS,
        "data.name": "tfds:gtsrb43/torchvision",
        "data.pixels": 32,
    },
    "tiny_imagenet": {  # 64 x 64 pixels as published; docs/decisions.md#tiny-imagenet
        **PAPERS,
        "data.name": "tfds:tiny_imagenet",
    },
    "ag_news": {  # T 5.1; vocabulary: as PFLlib's newer script
        "data.name": "tfds:ag_news_subset",
        **WIDE,
        "data.vocab_size": 32_000,
        "data.max_len": 200,
        "model.group": "text",
        "rounds": 300,
        "checkpoint_every": 5,
    },
}
FIRST = {  # first experiment of the files in configs/: 1,797 images of 8 x 8 pixels
    "data.clients": 20,
    "data.partition": "dirichlet",
    "data.alpha": 0.1,
    "data.train_share": 0.75,
    "model.group": "digits",
    "model.feat_dim": 64,
    "rounds": 50,
    "local.epochs": 1,
    "local.batch_size": 10,
    "optimizer.name": "sgd",
    "optimizer.learning_rate": 0.05,
    "optimizer.momentum": 0.0,
}
FEW = {"data.train_share": 0.25, "data.alpha": 0.5}  # docs/decisions.md#few
PULLS = {*OPTIONS["reg"], *OPTIONS["pull"]}
LAM = {  # for every method with a pull, where features have few dimensions d: lam / d
    # is 10 / 500, as with d = 500; with lam 10 ProtoNorm diverges there
    "digits": 1.28,
    "spiral": 0.04,
}
PROTONORM = {  # N 5.1, of the tables of that paper
    "model.feat_dim": lambda config: 512 if _is_wide(config) else config.model.feat_dim,
}
TINYPROTO = {  # T Tables 1 to 4; a tenth of other widths
    "method.s": lambda config: 50 if _is_wide(config) else config.method.s,
}
TABLES = {"tinyproto": TINYPROTO}  # method -> its own tables' fields; others: PROTONORM
UPSCALE = {  # gamma of ProtoNorm, N Section 5.1
    "cifar10": 100.0,
    "cifar100": 200.0,
    "flowers102": 200.0,
    "tiny_imagenet": 400.0,
}
MU = {  # of TinyProto, T Section 5.1
    "cifar10": 1.5e-4,
    "cifar100": 1.5e-3,
    "tiny_imagenet": 1.5e-3,
    "gtsrb": 5e-4,
    "flowers102": 5e-3,
    "ag_news": 2.8e-5,  # not stated: 0.9 over a class's 31,900 examples
}
REFPROTOFL = {  # protocol of RefProtoFL's comparison, its Section 5.1
    "data.clients": 10,
    "data.alpha": 0.5,
    "data.pool": False,  # clients are tested on the whole official test part
    "model.group": "resnet18",
    "model.feat_dim": 512,  # not stated: ResNet-18's own
    "rounds": 50,
    "eval_every": 1,
    "local.epochs": 1,
    "local.batch_size": 64,
    "optimizer.learning_rate": 0.01,
    "optimizer.momentum": 0.9,
    "optimizer.weight_decay": 1e-4,
}
IN_REFPROTOFL = {  # variants of the methods in that comparison: alpha 0.5 and 100
    "refprotofl": REFPROTOFL,
    "refprotofl100": {**REFPROTOFL, "data.alpha": 100.0},
}
RUN_FIELDS: dict[str, dict[str, Any]] = {  # method -> fields outside `method.`
    "fast": {"participation.law": "beta", "participation.fraction": 0.1},  # ours
    "fednh": {"optimizer.clip_norm": 10.0},  # its released code
}
AUX = {  # auxiliary network of examples that are not images; ours: not stated
    "spiral": {"method.aux": "spiral_mlp"},
    "ag_news": {"method.aux": "fasttext"},
}
HOMOGENEOUS = {  # group -> its network for methods that need one architecture
    "digits": "cnn4_d",
    "light": "cnn4",
    "Ht0": "cnn4",
    "text": "fasttext",
}
FIRST_AVERAGED = {**FIRST, "model.group": HOMOGENEOUS["digits"]}  # of `averaging`


def _is_wide(config) -> bool:
    """Returns whether features have the width that T and S state for all data."""
    return config.model.feat_dim == WIDE["model.feat_dim"]


def widths(feat_dim: int) -> list[int]:
    """Returns 50, 150, ..., 450 of 500 coordinates (S Table 2), as shares."""
    shares = (0.1, 0.3, 0.5, 0.7, 0.9)
    return sorted({max(1, round(share * feat_dim)) for share in shares})


def averaging(more: Mapping = MappingProxyType({})) -> dict[str, dict]:
    """Returns the variants of a method whose clients have one architecture.

    Each data set has one network instead of a group. `refprotofl` and `refprotofl100`
    are the protocol of that paper with alpha 0.5 and 100.

    Args:
      more: additional fields of every data set.
    """
    variants = {}
    for name, fields in DATASETS.items():
        group = fields["model.group"]
        variants[name] = {"model.group": HOMOGENEOUS.get(group, group), **more}
    return {**variants, **IN_REFPROTOFL}


def experiment(
    method: str,
    arg: str = DEFAULT_DATASET,
    variants: Mapping[str, Mapping] | None = None,
    *,
    like: str = "",
) -> ml_collections.ConfigDict:
    """Returns a configuration of `method` with the presets named in `arg`.

    `experiment("protonorm", "digits")` is `configs/protonorm.py:digits`.

    Args:
      method: a name of `METHODS`.
      arg: names joined by commas: a data set of `DATASETS`, and variants of the method.
        Variants are applied from left to right after the data set.
      variants: name -> flat fields such as {"method.lam": 10.0}; a variant with the
        name of the data set is applied with it. A value may be a function of the
        configuration so far. `few` is always there; the readings `paper` and `code`
        come last. None takes the variants of the method's file in configs/.
      like: method whose values on the data set replace the defaults of the fields
        `method.` that both methods have, such as "fedproto" for a variant of it.

    Raises:
      UserError: there is no such method or preset, there are several data sets or
        readings, or a field of `like` has another type.
    """
    readings = readings_of(choose_from("method", method, METHODS))
    variants = builtin.variants(method) if variants is None else variants
    variants = {"few": FEW, **variants, **readings}
    names = sorted(filter(None, arg.split(",")), key=readings.__contains__)
    for name in names:
        choose_from("preset", name, {*DATASETS, *variants})
    datasets = [n for n in dict.fromkeys(names) if n in DATASETS] or [DEFAULT_DATASET]
    _check_only_one("data sets", arg, datasets)
    _check_only_one("readings", arg, [n for n in dict.fromkeys(names) if n in readings])
    config = default_config(method)
    config.name = method
    if like:
        _take_shared_fields(config, experiment(like, datasets[0]))
    for name in [*datasets, *(n for n in names if n not in DATASETS)]:
        apply_fields(config, DATASETS.get(name, {}))
        if name in LAM and any(config.method.get(k) in PULLS for k in ("reg", "pull")):
            config.method.lam = LAM[name]
        apply_fields(config, variants.get(name, {}))
    return config


def _take_shared_fields(
    config: ml_collections.ConfigDict, like: ml_collections.ConfigDict
):
    """Gives the fields `method.` that two configurations share the values of `like`."""
    for key in {*config.method} & {*like.method} - {"name"}:
        try:
            config.method[key] = like.method[key]
        except UserError as e:
            raise UserError(
                f"method.{key} of {config.name} is {config.method[key]!r} by default, "
                f"and that of {like.name} is {like.method[key]!r}: give the argument a "
                "default of that type, or another name."
            ) from e


def _check_only_one(kind: str, arg: str, names: Sequence[str]):
    """Raises UserError if several presets of a kind are named."""
    if len(names) > 1:
        raise UserError(
            f"the presets {arg!r} name {len(names)} {kind}, {' and '.join(names)}; "
            "leave one."
        )


def readings_of(method: str) -> Mapping[str, Mapping]:
    """Returns the fields of each reading; the layer `papers` has them."""
    return plugins.table("READINGS").get(method, {})


def require_reading(method: str, reading: str) -> Mapping:
    """Returns the fields of a reading.

    Raises:
      UserError: the method has no such reading.
    """
    readings = readings_of(method)
    if not readings:
        raise UserError(f"{method} has one reading only: leave {reading!r} out.")
    return readings[choose_from(f"reading of {method}", reading, readings)]


def apply_variant(config: ml_collections.ConfigDict, reading: str):
    """Applies the variant `paper` or `code` of the method; "" changes nothing.

    Raises:
      UserError: the method has no such reading.
    """
    if reading:
        apply_fields(config, require_reading(config.method.name, reading))


def apply_fields(config: ml_collections.ConfigDict, fields: Mapping):
    """Sets flat fields; a value may be a function of the configuration."""
    config.update_from_flattened_dict(resolve_callables(config, fields))


def resolve_callables(config: ml_collections.ConfigDict, fields: Mapping) -> dict:
    """Returns the fields, with functions replaced by their value for a config."""
    return {k: v(config) if callable(v) else v for k, v in fields.items()}
