"""What type and which numbers a field of a configuration may hold.

The ranges of a method's fields stand where these are declared (`types.Range`); those of
all other fields stand here.
"""

import dataclasses
import math

import numpy as np

from jaxproto.config import registries
from jaxproto.data.pixels import LARGEST
from jaxproto.errors import UserError, cut, hidden
from jaxproto.methods import METHODS
from jaxproto.types import MOST, Range, or_zero

FOLLOW = -1  # `data.seed` that takes the value of `seed`
_ABOVE = Range("above 0", 0, ends="(]")
_ONE = Range("at least 1 and below 2**31", 1, MOST)
_NONE = Range("0 (off) or more", 0)
_SHARE = Range("at least 0 and below 1", 0, 1, "[)")
_PART = Range("above 0 and at most 1", 0, 1, "(]")
_LAW_FLOATS = (
    "beta_a",
    "beta_b",
    "gamma_shape",
    "gamma_scale",
    "weibull_shape",
    "weibull_scale",
)
RANGES = {  # dotted path -> range; every number outside of `method` is here
    "seed": Range("from 0 to 2**32 - 1", 0, 2**32 - 1),
    "rounds": _ONE,
    "eval_every": _ONE,
    "checkpoint_every": _ONE,
    "data.pixels": Range(f"0 (as they are) or more, {LARGEST} at most", 0, LARGEST),
    "data.vocab_size": or_zero("all words"),
    "data.max_len": _ONE,
    "data.min_texts": _ONE,
    "data.clients": _ONE,
    "data.alpha": Range("above 0 and at most 1e6", 0, 1e6, "(]"),
    "data.classes_per_client": _ONE,
    "data.min_size": _ONE,
    "data.least_samples": _ONE,
    "data.train_share": Range("above 0 and below 1", 0, 1, "()"),
    "data.seed": Range("from 0 to 2**32 - 1, or follow", FOLLOW, 2**32 - 1),
    "data.public_share": _SHARE,
    "data.public_classes": _PART,
    "model.feat_dim": _ONE,
    "local.epochs": Range("from 1 to 10,000", 1, 10_000),  # a trace has all their keys
    "local.batch_size": _ONE,
    "optimizer.learning_rate": _ABOVE,
    "optimizer.momentum": _SHARE,
    "optimizer.weight_decay": _NONE,
    "optimizer.clip_norm": _NONE,
    "optimizer.decay": _PART,
    "early_stopping.patience": or_zero("off"),
    "early_stopping.least": _SHARE,
    **{f"participation.{name}": _ABOVE for name in _LAW_FLOATS},
    "privacy.clip": _ABOVE,
    "privacy.noise": _ABOVE,
    "privacy.delta": Range("above 0 and below 1", 0, 1, "()"),
    "participation.fraction": _PART,
    "participation.dropout": _SHARE,
    "participation.cyclic_groups": _ONE,
    "participation.circular_groups": _ONE,
}
TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}


def of_method(name: str) -> dict[str, Range]:
    """Dotted path -> range of the fields whose factory declares one."""
    found = {}
    for key, metadata in registries.annotations(METHODS[name]).items():
        for own in metadata:
            if isinstance(own, Range):
                found[f"method.{key}"] = _following(key, own)
    return found


def _following(key: str, own: Range) -> Range:
    """The range with 0, where 0 in a configuration takes another field's value."""
    if key not in registries.FOLLOWED:
        return own
    words = f"0 (that of {registries.FOLLOWED[key]}) or {own.words}"
    return dataclasses.replace(own, words=words, low=0)


def check_type(path: str, value, example):
    """Raises UserError unless `value` is what `example` is; a float may be whole."""
    want = type(example)
    kinds = (int, float) if want is float else want
    if not isinstance(value, kinds) or isinstance(value, bool) != (want is bool):
        raise UserError(f"{path} is {cut(value)}; it must be {TYPES[want]}.")
    if isinstance(value, str):
        _check_text(path, value)
    elif want is float and not abs(value) < math.inf:
        raise UserError(f"{path} is {value}; it must be finite.")


def _check_text(path: str, value: str):
    """Raises UserError for a text that no file can hold and no terminal show."""
    if bad := hidden(value):
        raise UserError(
            f"{path} is {cut(value)}, with the character {bad}, which cannot be "
            "printed; leave it out, and rename the file if it is one."
        )


def check_range(path: str, value, own: Range):
    """Raises UserError unless a number is in its range, as compiled programs see it.

    They compute in float32; data are divided in float64.
    """
    if not own.fits(value):
        raise UserError(f"{path} is {cut(value)}; it must be {own.words}.")
    if isinstance(value, float | int) and not path.startswith("data."):
        _check_single(path, value, own)


def _check_single(path: str, value: float, own: Range):
    """The same for a number rounded to float32."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    whole = isinstance(value, int)
    if not whole and not (own.fits(single) and math.isfinite(single)):
        raise UserError(
            f"{path} is {value}, which is {single} as a float32; it must be "
            f"{own.words}, and finite."
        )
