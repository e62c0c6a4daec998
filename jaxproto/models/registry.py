"""Registry of networks and groups, and the construction of a network."""

import inspect
from collections.abc import Callable, Iterable
from functools import partial

import jax
import jax.numpy as jnp

from jaxproto.errors import UserError, choose_from, is_own
from jaxproto.models import net_check
from jaxproto.models.cnn4 import cnn4, cnn4_d
from jaxproto.models.efficientnet import efficientnet_b0, efficientnet_b0_code
from jaxproto.models.from_modules import with_compute_dtype
from jaxproto.models.mlp import mlp, spiral_mlp
from jaxproto.models.mobilenet import mobilenet_v2, mobilenet_v2_code
from jaxproto.models.ops import Ops, ops_in
from jaxproto.models.resnet import (
    resnet4,
    resnet6,
    resnet8,
    resnet10,
    resnet18,
    resnet18_gn,
)
from jaxproto.models.shufflenet import shufflenet_v2_x1_0
from jaxproto.models.text import fasttext, fasttext_code, textcnn, textcnn_code
from jaxproto.types import Net

NETS: dict[str, Callable[..., Net]] = {
    "cnn4": cnn4,
    "cnn4_d": cnn4_d,
    "efficientnet_b0": efficientnet_b0,
    "efficientnet_b0_code": efficientnet_b0_code,
    "fasttext": fasttext,
    "fasttext_code": fasttext_code,
    "mlp": mlp,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v2_code": mobilenet_v2_code,
    "resnet4": resnet4,
    "resnet6": resnet6,
    "resnet8": resnet8,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "resnet18_gn": resnet18_gn,
    "shufflenet_v2_x1_0": shufflenet_v2_x1_0,
    "spiral_mlp": spiral_mlp,
    "textcnn": textcnn,
    "textcnn_code": textcnn_code,
}

GROUPS: dict[str, tuple[str, ...]] = {
    # Lightweight networks of both papers' heterogeneous setting, in the code's order
    "Ht0": ("resnet8", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0"),
    # The same with dropout where the released code has it
    "Ht0_code": (
        "resnet8",
        "mobilenet_v2_code",
        "shufflenet_v2_x1_0",
        "efficientnet_b0_code",
    ),
    "HmCNN": ("cnn4",),  # N Table 3
    "HmRes18": ("resnet18",),  # N Table 3
    "digits": ("mlp", "cnn4_d", "resnet4", "resnet6"),  # ours: light, 8x8 pixels
    "light": ("cnn4", "resnet4", "resnet6", "resnet8"),  # ours: 28 or 32 pixels
    "text": ("fasttext", "textcnn"),  # T 5.1, AG News
    "text_code": ("fasttext_code", "textcnn_code"),  # as released
}

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
      name: a key of NETS.
      input_shape: of one example, without the batch axis: [H, W, channels], [n],
        or [L] tokens.
      num_classes: C, at least 1.
      feat_dim: D, at least 1; channel pooling brings any network's features there.
      ops: forms of the operations; by default those of the platform JAX runs on.
      compute_dtype: of the body, one of PRECISIONS; parameters are float32 in both.
        On a CPU bfloat16 rounds the operands of matrix products only.
      vocab_size: tokens, of inputs that are texts; None if they are numbers.

    Raises:
      UserError: no such network or precision, or it does not take such inputs.
    """
    make = NETS[choose_from("network", name, NETS)]
    for what, value in (("num_classes", num_classes), ("feat_dim", feat_dim)):
        if value < 1:
            raise UserError(f"{what} is {value}; it must be at least 1.")
    dtype = choose_from("precision", compute_dtype, PRECISIONS)
    net_check.check_callable(name, make)
    ops, dtype = ops_in(dtype, ops)
    asked = _asked(name, {"vocab_size": vocab_size, "compute_dtype": dtype})
    make = partial(make, tuple(input_shape), num_classes, feat_dim, ops, **asked)
    if is_own(NETS[name]):
        x = jax.ShapeDtypeStruct(
            (2, *input_shape), jnp.int32 if vocab_size else jnp.float32
        )
        net = net_check.checked(name, make, x)
    else:
        net = make()
    return net if dtype == "float32" else with_compute_dtype(dtype, net)


def _asked(name, extra):
    """Selects the arguments that a network takes; checks the kind of its inputs."""
    takes = inspect.signature(NETS[name]).parameters
    if ("vocab_size" in takes) != (extra["vocab_size"] is not None):
        kinds = ("texts", "numbers")
        reads, are = kinds if "vocab_size" in takes else reversed(kinds)
        raise UserError(
            f"network {name!r} reads {reads}, but the inputs are {are}. Networks on "
            f"texts are {', '.join(GROUPS['text'])} (model.group=text), and they read "
            "nothing else."
        )
    return {key: value for key, value in extra.items() if key in takes}


def group_members(group: str | tuple[str, ...]) -> tuple[str, ...]:
    """Returns the networks of a group, a network name or a tuple of names."""
    if not isinstance(group, str):
        return tuple(choose_from("network", name, NETS) for name in group)
    name = choose_from("network or group", group, {*NETS, *GROUPS})
    return GROUPS.get(name, (name,))


def assign_networks(
    group: str | tuple[str, ...], client_ids: Iterable[int]
) -> tuple[str, ...]:
    """Assigns networks to clients: client i gets entry i mod n of the group's n."""
    names = group_members(group)
    return tuple(names[i % len(names)] for i in client_ids)
