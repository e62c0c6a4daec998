"""How much arithmetic a network needs, and how fast matrices are multiplied here."""

import jax
import jax.numpy as jnp

from benchmarks import measure
from jaxproto import models
from jaxproto.models.ops import ops


def training_flops(name: str, shape, classes: int, dim: int) -> float | None:
    """Floating-point operations to train on one example: three forward passes.

    The forward pass is counted by XLA on the network with plain convolutions; the
    gradients with respect to inputs and to weights cost as much again each. None
    where XLA does not say.
    """
    how = {"num_classes": classes, "feat_dim": dim, "ops": ops.LAX}
    net = models.build(name, input_shape=shape, **how)
    params, norm = jax.eval_shape(net.init, jax.random.key(0))
    x = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    lowered = jax.jit(lambda *a: net.apply(*a, False)[1]).lower(params, norm, x)
    flops = (lowered.cost_analysis() or {}).get("flops")
    return flops and 3 * float(flops)


def matmul_flops(size: int = 2048, repeats: int = 10) -> float:
    """Operations per second of a float32 product of square matrices, at its fastest."""
    a = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(jnp.matmul)

    def run():
        product(a, a).block_until_ready()

    times = measure.alternate({"matmul": run}, repeats)["matmul"]
    return 2 * size**3 / min(times.seconds)
