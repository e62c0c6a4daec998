"""Body, parameter-free channel pooling, linear head: from NNX modules to a `Net`."""

import itertools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from jaxproto.core.types import Array, Net, NetOutput, Tree
from jaxproto.errors import UserError
from jaxproto.models.dropout import Place, no_dropout
from jaxproto.models.layers import (
    CallContext,
    Chain,
    InitialDraws,
    Linear,
    draw_initial,
)
from jaxproto.models.ops import Ops, at_least_single, channel_pool, ops_for

Body = Callable[[InitialDraws], nnx.Module]  # module(x, call) -> [B, width]
Activation = Callable[[Array], Array]


def image_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Checks that `shape` is that of an image [H, W, channels], and returns it.

    Args:
      name: Name of the network, for the error.

    Raises:
      UserError: The shape does not have three axes.
    """
    if len(shape) != 3:
        raise UserError(
            f"network {name!r} takes images [height, width, channels], but an input "
            f"has shape {tuple(shape)}. Use network 'mlp', or reshape the inputs."
        )
    height, width, channels = shape
    return height, width, channels


class BodyAndHead(nnx.Module):
    """Body and head, named as in the parameters of a `Net` (BaseHeadSplit)."""

    def __init__(self, body: nnx.Module, head: nnx.Module, feat_dim: int, place: Place):
        self.body, self.head = body, head
        self.feat_dim, self.place = feat_dim, place

    def __call__(self, x: Array, call: CallContext) -> tuple[Array, Array]:
        """Returns features [B, D] and logits [B, C]."""
        x = at_least_single(self.body(x, call))
        feat, head_input = self.place(x, self.pool, call)
        head_ops = call.ops._replace(product=call.ops.head)
        return feat, self.head(head_input, call._replace(ops=head_ops))

    def pool(self, x: Array) -> Array:
        """Pools the channels of [B, width] to [B, D]."""
        return channel_pool(x, self.feat_dim)


def make_net(
    body: Body,
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    head_bias: bool = True,
    hidden: tuple[int, ...] = (),
    activation: Activation = jax.nn.relu,
    place: Place = no_dropout,
) -> Net:
    """Returns a network as pure functions of pure dictionaries.

    The modules are split into structure and arrays once, here; `apply` merges them
    back under the trace, so that only arrays cross a jit boundary.

    Args:
      body: Function that makes the module below the channel pooling.
      num_classes: C, outputs of the head.
      feat_dim: D, outputs of the channel pooling.
      ops: Forms of the operations; by default those of the platform JAX runs on.
      head_bias: Whether the last layer of the head has a bias.
      hidden: Widths of the hidden layers of the head.
      activation: Activation of the hidden layers of the head.
      place: Placement of dropout; none by default.
    """
    ops = ops or ops_for()
    *inner, last = itertools.pairwise((feat_dim, *hidden, num_classes))

    def make(draws: InitialDraws) -> BodyAndHead:
        base = body(draws)
        layers: list[Callable] = []
        for sizes in inner:
            layers += Linear(*sizes, draws), lambda x, call: activation(x)
        logits = Linear(*last, draws, head_bias)
        top = Chain(*layers, logits) if layers else logits
        return BodyAndHead(base, top, feat_dim, place)

    count = InitialDraws()
    graph = nnx.graphdef(nnx.eval_shape(lambda: make(count)))

    def init(key: Array) -> tuple[Tree, Tree]:
        module = make(draw_initial(key, count.used))
        params, norm = nnx.state(module, nnx.Param), nnx.state(module, nnx.BatchStat)
        return nnx.to_pure_dict(params), nnx.to_pure_dict(norm)

    def apply(params, norm, x, train, key=None) -> NetOutput:
        module = nnx.merge(graph, params, norm)
        keys = None
        if train and key is not None:
            keys = map(partial(jax.random.fold_in, key), itertools.count(1))
        feat, logits = module(x, CallContext(train, ops, keys))
        if train:
            norm = nnx.to_pure_dict(nnx.state(module, nnx.BatchStat))
        return NetOutput(feat, logits, norm)

    return Net(init, apply, partial(head, activation=activation))


def head(params: Tree, feat: Array, activation: Activation = jax.nn.relu) -> Array:
    """Returns logits [B, C] of features [B, D].

    Args:
      params: Parameters of the head: those of one layer, or {place in the `Chain`:
        those of a layer}.
      activation: Activation of the hidden layers.
    """
    if "kernel" not in params:
        *layers, last = (params[place] for place in sorted(params, key=int))
        for layer in layers:
            feat = activation(head(layer, feat))
        return head(last, feat)
    logits = feat @ params["kernel"]
    return logits + params["bias"] if "bias" in params else logits


def with_compute_dtype(dtype: str, net: Net) -> Net:
    """Returns the network with its body computed in another precision.

    Parameters, gradients, normalisation, features and logits stay float32. Inputs of
    whole numbers (tokens) are not converted.
    """

    def apply(params, norm, x, train, key=None) -> NetOutput:
        real = jnp.issubdtype(x.dtype, jnp.floating)
        x = x.astype(dtype) if real else x
        return net.apply(params, norm, x, train, key)

    return net._replace(apply=apply)
