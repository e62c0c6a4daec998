"""Registry of networks and groups, and the construction of a network."""

import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial

import jax
import jax.numpy as jnp

from jaxproto.core.jax_settings import make_key
from jaxproto.core.registry import Registry, places
from jaxproto.core.tracing import shapes_of
from jaxproto.core.types import Net, NetOutput, describe, kind_of
from jaxproto.errors import (
    UserError,
    choose_from,
    describe_failure,
    place_of,
)
from jaxproto.models import groups
from jaxproto.models.from_modules import with_compute_dtype
from jaxproto.models.ops import Ops, ops_in
from jaxproto.origin import is_external

_BUILTIN: dict[str, Callable[..., Net]] = {
    **places("models.mlp", "amazon_mlp", "mlp", "spiral_mlp"),
    **places("models.recurrent", "bilstm", "gru", "lstm"),
    **places("models.cnn4", "cnn4", "cnn4_d"),
    **places("models.efficientnet", "efficientnet_b0", "efficientnet_b0_code"),
    **places("models.text", "fasttext", "fasttext_code", "text_logistic"),
    **places("models.text", "textcnn", "textcnn_code"),
    **places("models.googlenet", "googlenet"),
    **places("models.harcnn", "harcnn"),
    **places("models.mobilenet", "mobilenet_v2", "mobilenet_v2_code"),
    **places("models.resnet", *groups.SMALL, *groups.DEEP, "resnet18_gn"),
    **places("models.shufflenet", "shufflenet_v2_x1_0"),
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
    "group of networks", groups.BUILTIN, reserved=_BUILTIN
)

PRECISIONS = ("float32", "bfloat16")  # that a body can be computed in


def build(
    name: str,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    compute_dtype: str = "float32",
    vocab_size: int | None = None,
) -> Net:
    """Builds a network for inputs of one shape.

    Args:
      name: A key of NETS, or one with options (`factory`).
      input_shape: Shape of one example, without the batch axis: [H, W, channels], [n],
        or [L] tokens.
      num_classes: C, at least 1.
      feat_dim: D, at least 1; channel pooling maps any body's outputs to D features.
      ops: Forms of the operations; by default those of the platform JAX runs on.
      compute_dtype: Precision of the body, one of PRECISIONS; parameters are float32
        in any case. On a CPU bfloat16 rounds the operands of matrix products only.
      vocab_size: Size of the vocabulary if inputs are texts; None if they are numbers.

    Raises:
      UserError: There is no such network or precision, or it does not take such inputs.
    """
    make = factory(name)
    for what, value in (("num_classes", num_classes), ("feat_dim", feat_dim)):
        if value < 1:
            raise UserError(f"{what} is {value}; it must be at least 1.")
    dtype = choose_from("precision", compute_dtype, PRECISIONS)
    ops, dtype = ops_in(dtype, ops)
    extra = _accepted(name, make, {"vocab_size": vocab_size, "compute_dtype": dtype})
    external = is_external(make)
    make = partial(make, tuple(input_shape), num_classes, feat_dim, ops, **extra)
    if external:
        x = jax.ShapeDtypeStruct(
            (2, *input_shape), jnp.int32 if vocab_size else jnp.float32
        )
        net = _checked(name, make, x)
    else:
        net = make()
    return net if dtype == "float32" else with_compute_dtype(dtype, net)


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


def _accepted(name, make, extra):
    """Selects the arguments that a network has; checks the kind of its inputs."""
    parameters = inspect.signature(make).parameters
    if ("vocab_size" in parameters) != (extra["vocab_size"] is not None):
        kinds = ("texts", "numbers")
        reads, are = kinds if "vocab_size" in parameters else reversed(kinds)
        raise UserError(
            f"network {name!r} reads {reads}, but the inputs are {are}. Networks on "
            f"texts are {', '.join(text_networks())}, and they read nothing else."
        )
    return {key: value for key, value in extra.items() if key in parameters}


def _checked(name: str, make: Callable[[], Net], x: jax.ShapeDtypeStruct) -> Net:
    """Makes a user's network and checks it by shapes alone, computing nothing.

    Args:
      name: Name of the network, for errors.
      make: Function without arguments that makes the network.
      x: Shape of a batch of inputs.

    Raises:
      UserError: The factory, `init` or `apply` fails, or returns something else.
    """

    def attempt(what, f, *args):
        try:
            return f(*args)
        except UserError:
            raise
        except Exception as e:  # a user's network may raise anything
            raise UserError(
                f"network {name!r}: {what} fails for inputs {x.shape}: "
                f"{describe_failure(e)}. {FACTORY} ({place_of(make)})."
            ) from e

    def expect(what, value, kind):
        if not isinstance(value, kind):
            raise UserError(
                f"network {name!r}: {what} returns {kind_of(value)}, not "
                f"{kind.__name__}; {FACTORY} ({place_of(make)})."
            )

    def apply(params, norm, x, key):
        out = net.apply(params, norm, x, True, key)
        expect("apply", out, NetOutput)
        for what in ("feat", "logits"):
            array = getattr(out, what)
            if not jnp.issubdtype(array.dtype, jnp.floating):
                raise UserError(
                    f"network {name!r}: apply returns {describe(array)} as {what}; it "
                    "must return floats, as no gradient passes whole numbers "
                    f"({place_of(make)})."
                )
        return out

    net = attempt("its factory", make)
    expect("its factory", net, Net)
    key = jax.eval_shape(make_key, 0)
    params, norm = attempt("init", shapes_of, net.init, key)
    attempt("apply", shapes_of, apply, params, norm, x, key)
    return net


def text_networks() -> list[str]:
    """Returns the networks that read texts."""
    return [
        name
        for name, make in NETS.items()
        if "vocab_size" in inspect.signature(make).parameters
    ]


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
    for name in group:
        factory(name)
    return tuple(group)


def assign_networks(
    group: str | tuple[str, ...], client_ids: Iterable[int]
) -> tuple[str, ...]:
    """Assigns networks to clients: client i gets entry i mod n of a group of n."""
    names = group_members(group)
    return tuple(names[i % len(names)] for i in client_ids)
