"""Networks for tests, their shapes, and the shapes of their outputs."""

from functools import partial
from pathlib import Path

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from jaxproto import models

KEY = jax.random.key(0)
GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "networks.npz")  # of PyTorch
TEXT, CODE = models.GROUPS["text"], models.GROUPS["text_code"]
SHAPES = {"spiral_mlp": (2,), "harcnn": (64, 3, 1)}  # of inputs that are no images
SHAPES |= {f"vit_b_{patch}": (patch, patch, 1) for patch in (16, 32)}


def build(name, shape=(32, 32, 3), classes=10, dim=500, **options):
    sizes = {"input_shape": shape, "num_classes": classes, "feat_dim": dim}
    return models.build(name, **sizes, **options)


def small(name, image=(8, 8, 1)):
    """Returns the sizes of a small network: arguments of `models.build`."""
    dim = {"spiral_mlp": 2, "transformer": 8}.get(name, 5)
    sizes = {"input_shape": SHAPES.get(name, image), "num_classes": 3, "feat_dim": dim}
    text = name in models.construction.text_networks()
    return sizes | ({"input_shape": (6,), "vocab_size": 9} if text else {})


def shapes(net):
    return jax.eval_shape(net.init, KEY)


def output(net, trees, x_shape, train=True, dtype=jnp.float32, key=None):
    x = jax.ShapeDtypeStruct(x_shape, dtype)
    return jax.eval_shape(lambda *a: net.apply(*a, train, key), *trees, x)


def step(net):
    """Parameters, statistics, batch -> loss and output, gradient; without dropout."""

    def loss(params, norm, x):
        out = net.apply(params, norm, x, True)
        picked = jax.nn.log_softmax(out.logits)[:, 0]
        return jnp.mean(out.feat**2) - jnp.mean(picked), out

    return jax.value_and_grad(loss, has_aux=True)


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def dtypes(tree):
    return {leaf.dtype.name for leaf in jax.tree.leaves(tree)}


def relative(got, expected):
    got, expected = (jax.flatten_util.ravel_pytree(t)[0] for t in (got, expected))
    return float(jnp.linalg.norm(got - expected) / jnp.linalg.norm(expected))


def close(got, expected, tolerance=1e-4):
    near = partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    jax.tree.map(near, got, expected)
