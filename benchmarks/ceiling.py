"""Arithmetic operations of a network, and the measured speed of matrix products."""

import jax
import jax.numpy as jnp

from benchmarks import measure
from jaxproto import models
from jaxproto.core.jax_settings import make_key
from jaxproto.models.ops import ops


def training_flops(name: str, shape, classes: int, dim: int) -> float | None:
    """Returns the operations to train on one example: three forward passes.

    XLA counts the forward pass of the network with plain convolutions. The gradients
    with respect to inputs and to weights each cost as much again. None if XLA does not
    count. It counts for CPUs, as its client for GPUs does not count at all.
    """
    sizes = {"num_classes": classes, "feat_dim": dim, "ops": ops.LAX}
    net = models.build(name, input_shape=shape, **sizes)
    params, norm = jax.eval_shape(net.init, make_key(0))
    x = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    with jax.default_device(jax.devices("cpu")[0]):
        lowered = jax.jit(lambda *a: net.apply(*a, False)[1]).lower(params, norm, x)
    flops = (lowered.cost_analysis() or {}).get("flops")
    return flops and 3 * float(flops)


def matmul_flops() -> float:
    """Measures operations per second of a float32 matrix product, at its fastest."""
    size = 2048
    a = jax.random.normal(make_key(0), (size, size))
    times = measure.timed(measure.waiting(jax.jit(jnp.matmul), a, a), 10)
    return 2 * size**3 / min(times.seconds)
