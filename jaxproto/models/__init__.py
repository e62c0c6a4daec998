"""Networks by name, groups of them, and the way to build one."""

from collections.abc import Callable, Iterable

from jaxproto.errors import UserError, pick
from jaxproto.models.cnn4 import cnn4, cnn4_d
from jaxproto.models.mlp import mlp, spiral_mlp
from jaxproto.models.resnet import resnet4, resnet6, resnet8, resnet10
from jaxproto.nn import Ops
from jaxproto.types import Net

__all__ = ["GROUPS", "NETS", "assign", "build", "members"]

NETS: dict[str, Callable[..., Net]] = {
    "cnn4": cnn4,
    "cnn4_d": cnn4_d,
    "mlp": mlp,
    "resnet4": resnet4,
    "resnet6": resnet6,
    "resnet8": resnet8,
    "resnet10": resnet10,
    "spiral_mlp": spiral_mlp,
}

GROUPS: dict[str, tuple[str, ...]] = {
    "HmCNN": ("cnn4",),  # N Table 3
    "digits": ("mlp", "cnn4_d", "resnet4", "resnet6"),  # ours: light, 8x8 pixels
    "light": ("cnn4", "resnet4", "resnet6", "resnet8"),  # ours: 28 or 32 pixels
}


def build(
    name: str,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """The network `name` for inputs of one shape.

    Args:
      name: a key of NETS.
      input_shape: of one example, without the batch axis: [H, W, channels] or [n].
      num_classes: C, at least 1.
      feat_dim: D, at least 1; channel pooling brings any network's features there.
      ops: forms of the operations; by default those of the platform JAX runs on.

    Raises:
      UserError: no such network, or it does not take such inputs.
    """
    make = NETS[pick("network", name, NETS)]
    for what, value in (("num_classes", num_classes), ("feat_dim", feat_dim)):
        if value < 1:
            raise UserError(f"{what} is {value}; it must be at least 1.")
    return make(tuple(input_shape), num_classes, feat_dim, ops)


def members(group: str | tuple[str, ...]) -> tuple[str, ...]:
    """Networks of a group, given by its name, as one network or as a tuple of names."""
    if not isinstance(group, str):
        return tuple(pick("network", name, NETS) for name in group)
    name = pick("network or group", group, {*NETS, *GROUPS})
    return GROUPS.get(name, (name,))


def assign(group: str | tuple[str, ...], client_ids: Iterable[int]) -> tuple[str, ...]:
    """The network of each client: client i gets entry i mod n of the group's n."""
    names = members(group)
    return tuple(names[i % len(names)] for i in client_ids)
