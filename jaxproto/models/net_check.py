"""Check of a user's network by shapes alone, without computing anything."""

from collections.abc import Callable

import jax

from jaxproto.errors import UserError, describe_failure, place_of
from jaxproto.types import Net, NetOutput, kind_of

FACTORY = (
    "NETS holds functions of (input_shape, num_classes, feat_dim, ops) that return a "
    "Net, such as models.from_nnx(MyModule)"
)


def check_callable(name: str, make):
    """Raises UserError for an entry of NETS that is no function."""
    if not callable(make):
        kind = type(make).__name__
        raise UserError(f"network {name!r} is an instance of {kind}; {FACTORY}.")


def checked(name: str, make: Callable[[], Net], x: jax.ShapeDtypeStruct) -> Net:
    """Makes a network and checks its functions on abstract inputs.

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
            failure = describe_failure(e)
            raise UserError(
                f"network {name!r}: {what} fails for inputs {x.shape}: {failure}. "
                f"{FACTORY}."
            ) from e

    def expect(what, value, kind):
        if not isinstance(value, kind):
            raise UserError(
                f"network {name!r}: {what} returns {kind_of(value)}, not "
                f"{kind.__name__}; {FACTORY} ({place_of(make)})."
            )

    def apply(params, norm, x):
        out = net.apply(params, norm, x, True)
        expect("apply", out, NetOutput)
        return out

    net = attempt("its factory", make)
    expect("its factory", net, Net)
    key = jax.eval_shape(jax.random.key, 0)
    params, norm = attempt("init", jax.eval_shape, net.init, key)
    attempt("apply", jax.eval_shape, apply, params, norm, x)
    return net
