"""Check of inputs for networks on images."""

from jaxproto.errors import UserError


def image_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns `shape` if it is that of an image [H, W, channels].

    Raises:
      UserError: names the network and the shape.
    """
    if len(shape) != 3:
        raise UserError(
            f"network {name!r} takes images [height, width, channels], but an input "
            f"has shape {tuple(shape)}. Use network 'mlp', or reshape the inputs."
        )
    height, width, channels = shape
    return height, width, channels
