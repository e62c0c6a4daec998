"""Registry of networks and groups, and the construction of a network."""

import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial

from jaxproto.core.registry import Registry, places
from jaxproto.core.types import Net
from jaxproto.errors import (
    UserError,
    choose_from,
)
from jaxproto.models import groups

_BUILTIN: dict[str, Callable[..., Net]] = {
    **places("models.mlp", "amazon_mlp"),
    **places("models.recurrent", "bilstm"),
    **places("models.cnn4", "cnn4", "cnn4_d"),
    **places("models.efficientnet", "efficientnet_b0", "efficientnet_b0_code"),
    **places("models.text", "fasttext", "fasttext_code"),
    **places("models.googlenet", "googlenet"),
    **places("models.recurrent", "gru"),
    **places("models.harcnn", "harcnn"),
    **places("models.recurrent", "lstm"),
    **places("models.mlp", "mlp"),
    **places("models.mobilenet", "mobilenet_v2", "mobilenet_v2_code"),
    **places("models.resnet", *groups.SMALL, *groups.DEEP, "resnet18_gn"),
    **places("models.shufflenet", "shufflenet_v2_x1_0"),
    **places("models.mlp", "spiral_mlp"),
    **places("models.text", "text_logistic", "textcnn", "textcnn_code"),
    **places("models.transformer", "transformer"),
    **places("models.vit", "vit_b_16", "vit_b_32"),
}
FACTORY = (
    "NETS holds functions of (input_shape, num_classes, feat_dim, ops) that return a "
    "Net, such as models.from_nnx(MyModule)"
)
NETS: Registry[Callable[..., Net]] = Registry(
    "network",
    _BUILTIN,
    reserved=groups.BUILTIN,
    hint=f"{FACTORY}.",
    group="jaxproto.networks",
)
GROUPS: Registry[tuple[str, ...]] = Registry(
    "group of networks",
    groups.BUILTIN,
    reserved=_BUILTIN,
    group="jaxproto.groups",
)

PRECISIONS = ("float32", "bfloat16")  # that a body can be computed in


def factory(name: str) -> Callable[..., Net]:
    """Returns the function that makes a network.

    Args:
      name: A key of NETS, or one with values of its options: whole numbers, or several
        joined by hyphens: `harcnn+layers=1+stride=2`, `resnet34+head=512-256`.

    Raises:
      UserError: There is no such network or option, or a value is invalid.
    """
    key, *settings = name.split("+")
    make = NETS[choose_from("network", key, NETS)]
    options: dict[str, int | tuple[int, ...]] = {}
    for setting in settings:
        defaults = _options(make)
        option, _, value = setting.partition("=")
        several = isinstance(
            defaults[choose_from(f"option of {key}", option, defaults)], tuple
        )
        pattern = r"[1-9]\d{0,5}" + r"(-[1-9]\d{0,5})*" * several
        if not re.fullmatch(pattern, value):
            kind = "whole numbers joined by hyphens" if several else "a whole number"
            raise UserError(
                f"network {name!r}: {option} is {value!r}. Give {kind}, from 1 to "
                "999999."
            )
        numbers = tuple(map(int, value.split("-")))
        options[option] = numbers if several else numbers[0]
    return partial(make, **options) if options else make


def _options(make) -> dict[str, object]:
    """Returns the options that are whole numbers or tuples of them, with defaults."""
    parameters = inspect.signature(make).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {k: v for k, v in defaults.items() if isinstance(v, int | tuple)}


def group_members(group: str | tuple[str, ...]) -> tuple[str, ...]:
    """Returns the networks of a group, of one name, or of comma-joined names.

    A tuple has names of networks alone, no group.
    """
    if isinstance(group, str):
        names = tuple(name.strip() for name in group.split(","))
        if len(names) == 1:
            key = names[0].partition("+")[0]
            choose_from("network or group", key, {*NETS, *GROUPS})
            names = GROUPS.get(names[0], names)
        group = names
    for name in group:  # a network without options is not imported
        factory(name) if "+" in name else choose_from("network", name, NETS)
    return tuple(group)


def assign_networks(
    group: str | tuple[str, ...], client_ids: Iterable[int]
) -> tuple[str, ...]:
    """Assigns networks to clients: client i gets entry i mod n of a group of n."""
    names = group_members(group)
    return tuple(names[i % len(names)] for i in client_ids)
