"""Gaussian mechanism: clipping to norm C, and noise of z C on the sum.

Two data sets are neighbours if one unit, a client or an example, is replaced by another
one; the number of units is public. A sum of contributions of norm at most C then
differs by at most 2 C, so that noise of standard deviation z C is a Gaussian mechanism
with the multiplier z / 2 (`accounting.py`).

- Unit `client`, against readers of the broadcasts: the server is trusted. Each of the
  m clients of a round clips its whole upload and adds noise of z C / sqrt(m): the sum
  has noise of z C (McMahan et al.: Learning Differentially Private Recurrent Language
  Models, ICLR 2018, with the noise in shares). A participant knows its own share, so
  that m - 1 shares protect the others from it (`noise_against_participants`).
- Unit `example`, against the server too: every client trains by DP-SGD (Abadi et al.:
  Deep Learning with Differential Privacy, CCS 2016), because noise on class sums alone
  does not protect the examples that the network was trained on. Prototypes are another
  release: each feature is clipped to C, and every class sum has noise of z C.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxproto.core.hyperparameters import Real
from jaxproto.core.types import Array, Batch, LossAux, Tree
from jaxproto.prototypes import kernels

TINY = 1e-12  # smallest length
UNITS = OFF, CLIENT, EXAMPLE = "off", "client", "example"
UPDATES = "updates"  # Annotated[Privacy, UPDATES]: marks a method whose clients send
# only their whole network and keep no memory


class Privacy(NamedTuple):
    """Unit of privacy, clipping norm and noise of a run."""

    unit: str = OFF
    clip: Real = 1.0  # C, largest L2 norm of what a unit contributes
    noise: Real = 1.0  # z, standard deviation of the noise of a sum over C
    among: Real = 1.0  # m, clients of a round, for unit `client`

    @property
    def deviation(self) -> Real:
        """Standard deviation of the noise that one client adds to its message."""
        deviation = self.noise * self.clip
        return deviation / jnp.sqrt(self.among) if self.unit == CLIENT else deviation


NONE = Privacy()


def noise_against_participants(noise: float, participants: int) -> float:
    """Returns the noise multiplier of a sum for a participant, who knows its share."""
    return noise * (max(participants - 1, 1) / participants) ** 0.5


def clip_by_norm(tree: Tree, clip: Real) -> Tree:
    """Clips all arrays of a tree, as one vector, to the length `clip`.

    A vector without a finite length becomes zero.
    """
    length = tree_norm(tree)
    factor = clip_factor(length, clip)
    return jax.tree.map(lambda a: jnp.where(jnp.isfinite(length), a * factor, 0), tree)


def tree_norm(tree: Tree) -> Array:
    """Returns the L2 norm of all arrays as one vector, at least `TINY`."""
    # the square root has no derivative at 0
    return jnp.sqrt(jnp.maximum(optax.tree.norm(tree, squared=True), TINY**2))


def clip_factor(length: Array, clip: Real) -> Array:
    """Returns the factor that clips a vector of a length above 0 to `clip`."""
    return jnp.minimum(1.0, clip / length)


def gaussian_noise(key: Array, shape: Sequence[int], dtype) -> Array:
    """Returns standard Gaussian noise as half the sum of four draws.

    A float32 draw is at most 5.22 in magnitude, and an output beyond that would rule
    out one of two neighbours. Half the sum of four draws reaches 10.44. Holohan,
    Braghin: Secure Random Sampling in Differential Privacy, ESORICS 2021.
    """
    return jax.random.normal(key, (4, *shape), dtype).sum(0) / 2


def add_gaussian_noise(tree: Tree, deviation: Real, key: Array) -> Tree:
    """Adds independent Gaussian noise to every number of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, max(len(leaves), 1))
    noisy = [
        a + deviation * gaussian_noise(k, a.shape, a.dtype)
        for a, k in zip(leaves, keys, strict=False)
    ]
    return jax.tree.unflatten(structure, noisy)


def dp_sgd_gradient(privacy: Privacy) -> Callable:
    """Returns DP-SGD in the form of `client.batch_value_and_grad`.

    An example is in at most one batch of an epoch, and the number of examples of a
    batch is public. Networks must treat the examples of a batch apart: no BatchNorm.

    The sum of clipped gradients is the gradient of the sum of losses, each weighted by
    its clipping factor, so that no example's gradient is kept (Lee and Kifer: Scaling
    up Differentially Private Deep Learning with Fast Per-Example Gradient Clipping,
    PoPETs 2021).

    An example without a finite loss and gradient counts as an input of zeros with
    weight 0. Matrix products are full float32: lengths and the clipped sum come from
    different programs, and must agree.
    """

    def gradient(loss: Callable) -> Callable:
        @kernels.float32_matmuls
        def value_and_grad(params, norm, batch, down, client):
            examples_key, noise_key = jax.random.split(batch.key)

            def example_loss(params, x, y, mask, key):
                example = Batch(x[None], y[None], mask[None], key)
                value, aux = loss(params, norm, example, down, client)
                return value * mask, aux.sums

            keys = jax.random.split(examples_key, len(batch.y))
            examples = batch.x, batch.y, batch.mask, keys

            def gradient_length(*example):
                example_gradient = jax.value_and_grad(example_loss, has_aux=True)
                (value, _), grads = example_gradient(params, *example)
                length = tree_norm(grads)
                return jnp.where(jnp.isfinite(value + length), length, jnp.inf)

            length_B = jax.vmap(gradient_length)(*examples)
            factor_B = clip_factor(length_B, privacy.clip)  # 0 for an infinite length
            x, *rest = examples
            x = jax.vmap(lambda n, x: jnp.where(jnp.isinf(n), 0, x))(length_B, x)
            examples = x, *rest

            def clipped_loss(params):
                loss_B, sums_B = jax.vmap(partial(example_loss, params))(*examples)
                value, sums = jax.tree.map(lambda a: a.sum(0), (loss_B, sums_B))
                return jnp.sum(factor_B * loss_B), (value, sums)

            total, (value, sums) = jax.grad(clipped_loss, has_aux=True)(params)
            total = add_gaussian_noise(total, privacy.deviation, noise_key)
            size = jnp.maximum(jnp.sum(batch.mask), 1.0)
            grads = jax.tree.map(lambda g: g / size, total)
            return (value / size, LossAux(norm, sums)), grads

        return value_and_grad

    return gradient
