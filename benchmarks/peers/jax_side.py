"""Networks in plain JAX, for FedJAX."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.peers import shared
from benchmarks.peers.shared import Federation


def parameters(fed: Federation) -> dict[str, jax.Array]:
    """Converts the initial parameters of the file from PyTorch's layout to JAX's."""
    weights, biases, out = fed.start[::2], fed.start[1::2], {}
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim == 4:
            weight = weight.transpose(2, 3, 1, 0)
        elif i and weights[i - 1].ndim == 4:  # its input is a flattened map
            weight = rows_last_channel(weight, len(weights[i - 1])).T
        else:
            weight = weight.T
        out[f"weight{i}"], out[f"bias{i}"] = jnp.asarray(weight), jnp.asarray(bias)
    return out


def rows_last_channel(weight: np.ndarray, channels: int) -> np.ndarray:
    """Reorders a layer on maps flattened as [C, H, W] for [H, W, C]."""
    outputs, inputs = weight.shape
    side = int((inputs // channels) ** 0.5)
    maps = weight.reshape(outputs, channels, side, side)
    return maps.transpose(0, 2, 3, 1).reshape(outputs, inputs)


def logits(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Maps images [B, H, W, channels] uint8 to logits [B, C], for both networks."""
    x, last = shared.decode(x), len(params) // 2 - 1
    for i in range(last + 1):
        weight, bias = params[f"weight{i}"], params[f"bias{i}"]
        if weight.ndim == 4:
            x = jax.nn.relu(convolution(x, weight) + bias)
            x = lax.reduce_window(x, -jnp.inf, lax.max, *POOL, "VALID")
            continue
        x = x.reshape(len(x), -1) @ weight + bias
        x = jax.nn.relu(x) if i < last else x
    return x


POOL = (1, 2, 2, 1), (1, 2, 2, 1)  # window and strides


def convolution(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Convolves without padding."""
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "VALID", dimension_numbers=layout
    )


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the mean cross-entropy."""
    log = jax.nn.log_softmax(logits(params, x))
    return -jnp.mean(jnp.take_along_axis(log, y[:, None], axis=1))


def accuracy(params: dict[str, jax.Array], fed: Federation) -> float:
    """Returns the test accuracy of a network."""
    predict = jax.jit(logits)
    return shared.accuracy(lambda x: predict(params, x).argmax(1), fed)
