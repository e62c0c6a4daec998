"""Body, parameter-free channel pooling, linear head: from NNX modules to a `Net`."""

from collections.abc import Callable

import jax
from flax import nnx

from jaxproto import nn
from jaxproto.models.layers import Call, Linear
from jaxproto.types import Array, Net, Out, Tree

Body = Callable[[nnx.Rngs], nnx.Module]  # module(x, call) -> [B, width]


class Split(nnx.Module):
    """The two halves under the names that a `Net` promises (BaseHeadSplit)."""

    def __init__(self, body: Body, feat_dim: int, classes: int, bias: bool, rngs):
        self.feat_dim = feat_dim
        self.body = body(rngs)
        self.head = Linear(feat_dim, classes, rngs, bias)

    def __call__(self, x: Array, call: Call) -> tuple[Array, Array]:
        """Features [B, D] and logits [B, C]."""
        feat = nn.channel_pool(self.body(x, call), self.feat_dim)
        return feat, self.head(feat)


def bundle(
    body: Body,
    *,
    num_classes: int,
    feat_dim: int,
    ops: nn.Ops | None = None,
    head_bias: bool = True,
) -> Net:
    """A network as pure functions of pure dictionaries.

    The modules are split into structure and arrays once, here; `apply` merges them
    back under the trace, so that only arrays cross a jit boundary.

    Args:
      body: makes the module below the channel pooling.
      num_classes: C, outputs of the head.
      feat_dim: D, outputs of the channel pooling.
      ops: forms of the operations; by default those of the platform JAX runs on.
      head_bias: whether the head has one.
    """
    ops = ops or nn.ops_for()

    def make(key):
        return Split(body, feat_dim, num_classes, head_bias, nnx.Rngs(key))

    graph = nnx.graphdef(nnx.eval_shape(lambda: make(jax.random.key(0))))

    def init(key: Array) -> tuple[Tree, Tree]:
        _, params, norm = nnx.split(make(key), nnx.Param, nnx.BatchStat)
        return nnx.to_pure_dict(params), nnx.to_pure_dict(norm)

    def apply(params, norm, x, train, key=None) -> Out:
        module = nnx.merge(graph, params, norm)
        rngs = nnx.Rngs(key) if train and key is not None else None
        feat, logits = module(x, Call(train, ops, rngs))
        if train:
            norm = nnx.to_pure_dict(nnx.state(module, nnx.BatchStat))
        return Out(feat, logits, norm)

    return Net(init, apply, head)


def head(params: Tree, feat: Array) -> Array:
    """Logits [B, C] of features [B, D] by the head's own parameters."""
    logits = feat @ params["kernel"]
    return logits + params["bias"] if "bias" in params else logits
