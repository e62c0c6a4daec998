"""Construction of a network by its name."""

import inspect
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxproto.core.jax_settings import make_key
from jaxproto.core.tracing import shapes_of
from jaxproto.core.types import Net, NetOutput, describe, kind_of
from jaxproto.errors import UserError, choose_from, describe_failure, place_of
from jaxproto.models.from_modules import with_compute_dtype
from jaxproto.models.ops import Ops, ops_in
from jaxproto.models.registry import FACTORY, NETS, PRECISIONS, factory
from jaxproto.origin import is_external


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
