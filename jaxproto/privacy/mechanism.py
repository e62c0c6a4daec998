"""Gaussian mechanism: clipping to norm C, and noise of z C on the sum.

Two data sets are neighbours if one unit, a client or an example, is replaced by another
one; how many there are is public. A sum of contributions of norm C at most then differs
by 2 C at most, so that noise of standard deviation z C is a Gaussian mechanism with the
multiplier z / 2 (`accounting.py`).

- Unit `client`, against readers of the broadcasts: the server is trusted. Each of the
  m clients of a round clips its whole upload and adds noise of z C / sqrt(m): the sum
  has noise of z C (McMahan et al.: Learning Differentially Private Recurrent Language
  Models, ICLR 2018, with the noise in shares). A participant knows its own share, so
  that m - 1 shares protect the others from it (`noise_against_participants`).
- Unit `example`, against the server too: every client trains by DP-SGD (Abadi et al.:
  Deep Learning with Differential Privacy, CCS 2016), as the sum of class means alone
  would say nothing of examples that the network was trained on. Prototypes are another
  release: each feature is clipped to C, and every class sum has noise of z C.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxproto import kernels
from jaxproto.hyperparameters import Real
from jaxproto.types import Array, Batch, LossAux, Tree

TINY = 1e-12  # smallest length
UNITS = OFF, CLIENT, EXAMPLE = "off", "client", "example"
UPDATES = "updates"  # Annotated[Privacy, UPDATES]: marks a method whose clients send
# their whole network, nothing else, and keep no memory


class Privacy(NamedTuple):
    """Unit of privacy, clipping norm and noise of a run."""

    unit: str = OFF
    clip: Real = 1.0  # C, largest L2 norm of what a unit contributes
    noise: Real = 1.0  # z, standard deviation of the noise of a sum over C
    among: Real = 1.0  # m, clients of a round; unit `client`

    @property
    def deviation(self) -> Real:
        """Standard deviation of the noise that one client adds to its message."""
        whole = self.noise * self.clip
        return whole / jnp.sqrt(self.among) if self.unit == CLIENT else whole


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

    A draw of float32 ends at 5.22: an output beyond the end would be impossible with
    one of two neighbours. Half the sum of four draws ends at 10.44. Holohan, Braghin:
    Secure Random Sampling in Differential Privacy, ESORICS 2021.
    """
    return jax.random.normal(key, (4, *shape), dtype).sum(0) / 2


def add_gaussian_noise(tree: Tree, deviation: Real, key: Array) -> Tree:
    """Adds independent Gaussian noise to every number of a tree."""
    leaves, form = jax.tree.flatten(tree)
    keys = jax.random.split(key, max(len(leaves), 1))
    noisy = [
        a + deviation * gaussian_noise(k, a.shape, a.dtype)
        for a, k in zip(leaves, keys, strict=False)
    ]
    return jax.tree.unflatten(form, noisy)


def rows_clipped(row_BD: Array, clip: Real) -> Array:
    """Clips every row of an array [B, D] to the length `clip`."""
    return jax.vmap(lambda row: clip_by_norm(row, clip))(row_BD)


def dp_sgd_gradient(privacy: Privacy) -> Callable:
    """Returns the gradient function of DP-SGD, as `client.batch_value_and_grad`.

    An example is in one batch of an epoch at most, and a batch has a public number of
    them. Networks must treat the examples of a batch apart: no BatchNorm.

    The sum of clipped gradients is the gradient of the losses weighted by how much each
    is shortened (Lee and Kifer: Scaling up Differentially Private Deep Learning with
    Fast Per-Example Gradient Clipping, PoPETs 2021): no example's gradient is kept.

    An example without a finite loss and gradient counts as one of zeros with weight 0.
    Matrix products are full float32: lengths and the clipped sum come from different
    programs, and must agree.
    """

    def gradient(loss: Callable) -> Callable:
        @kernels.float32_matmuls
        def of_batch(params, norm, batch, down, client):
            own, noise_key = jax.random.split(batch.key)

            def one(params, x, y, mask, key):
                alone = Batch(x[None], y[None], mask[None], key)
                value, aux = loss(params, norm, alone, down, client)
                return value * mask, aux.sums

            keys = jax.random.split(own, len(batch.y))
            examples = batch.x, batch.y, batch.mask, keys

            def length_of(*example):
                (value, _), grads = jax.value_and_grad(one, has_aux=True)(
                    params, *example
                )
                length = tree_norm(grads)
                return jnp.where(jnp.isfinite(value + length), length, jnp.inf)

            length_B = jax.vmap(length_of)(*examples)
            part_B = clip_factor(length_B, privacy.clip)  # 0 of an infinite length
            x, *rest = examples
            x = jax.vmap(lambda n, x: jnp.where(jnp.isinf(n), 0, x))(length_B, x)
            examples = x, *rest

            def whole(params):
                by_example = jax.vmap(partial(one, params))(*examples)
                value, sums = jax.tree.map(lambda a: a.sum(0), by_example)
                return jnp.sum(part_B * by_example[0]), (value, sums)

            total, (value, sums) = jax.grad(whole, has_aux=True)(params)
            total = add_gaussian_noise(total, privacy.deviation, noise_key)
            real = jnp.maximum(jnp.sum(batch.mask), 1.0)
            grads = jax.tree.map(lambda g: g / real, total)
            return (value / real, LossAux(norm, sums)), grads

        return of_batch

    return gradient
