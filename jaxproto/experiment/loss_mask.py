"""Check that examples with mask 0 do not count in a user's loss.

The loss is computed twice on two examples, with other rows of mask 0 beside them. The
network is replaced by slices of its inputs, so that the check costs nothing.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import wire
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Batch, Net, NetOutput, Spec, is_key
from jaxproto.data.dataset import Dataset
from jaxproto.errors import UserError, place_of
from jaxproto.experiment import statelessness
from jaxproto.metrics.shape_check import FAST
from jaxproto.origin import is_external
from jaxproto.round.client import LocalTraining

MASK_B = np.array([1, 1, 0, 0], np.float32)


def check_loss_mask(
    method: Method, net: Net, local: LocalTraining, spec: Spec, dataset: Dataset
):
    """Checks a user's loss that `check_method` has passed.

    A loss that fails or is not finite on random numbers is left to the run.

    Raises:
      UserError: The loss depends on examples with mask 0.
    """
    if not is_external(method.loss):
        return
    try:
        value, other = loss_of_two_batches(method, net, local, spec, dataset)
    except Exception:  # random numbers may be no valid state of the method
        return
    if not np.isfinite([value, other]).all() or np.isclose(value, other, 1e-4, 1e-6):
        return
    raise UserError(
        f"method {method.name!r}: loss depends on examples with mask 0, which fill a "
        f"batch (it returns {value:.4g}, and {other:.4g} after a change of these "
        "alone); weight each example by batch.mask, as in jnp.sum(loss_B * batch.mask) "
        f"/ jnp.maximum(jnp.sum(batch.mask), 1) ({place_of(method.loss)})."
    )


def loss_of_two_batches(
    method: Method, net: Net, local: LocalTraining, spec: Spec, dataset: Dataset
) -> tuple[float, float]:
    """Returns the loss of two batches that differ in the examples with mask 0."""
    rng = np.random.default_rng(0)
    shapes = statelessness.client_shapes(method, net, local, dataset)
    down = jax.eval_shape(partial(wire.for_client, id=0), shapes.down)
    client, down = jax.tree.map(partial(_concrete, rng), (shapes.client, down))
    stand_in = net._replace(apply=partial(_slices, spec))

    def loss(batch, down, client):
        params, norm = client.params, client.norm
        return method.loss(stand_in, params, norm, batch, down, client)[0]

    batch = _batch(rng, jax.eval_shape(batches.normalise_inputs, shapes.examples.x))
    changed = batch._replace(x=batch.x.copy(), y=batch.y.copy())
    changed.x[MASK_B == 0] += 1
    changed.y[MASK_B == 0] = 1
    compiled = jax.jit(loss).lower(batch, down, client).compile(FAST)
    value, other = (float(compiled(b, down, client)) for b in (batch, changed))
    return value, other


def _slices(spec: Spec, params, norm, x, train, key=None) -> NetOutput:
    """Returns features and logits that are entries of the inputs."""
    x_BF = jnp.reshape(x, (len(x), -1)).astype(jnp.float32)
    size = spec.feat_dim + spec.num_classes
    out = x_BF[:, np.arange(size) % x_BF.shape[1]]
    return NetOutput(out[:, : spec.feat_dim], out[:, spec.feat_dim :], norm)


def _batch(rng: np.random.Generator, x: Any) -> Batch:
    """Returns a batch of random examples; those with mask 0 have class 0."""
    shape = (len(MASK_B), *x.shape[1:])
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    x_B = rng.random(shape) if floats else rng.integers(0, 2, shape)
    y_B, row_B = np.array([0, 1, 0, 0], np.int32), np.arange(len(MASK_B))
    key, step = make_key(0), np.int32(0)
    fields: Any = x_B.astype(x.dtype), y_B, MASK_B, key, row_B, step
    return Batch(*fields)


def _concrete(rng: np.random.Generator, a: jax.ShapeDtypeStruct) -> Any:
    """Returns random numbers for a shape: positive floats, zeros and flags."""
    if is_key(a):
        return jnp.broadcast_to(make_key(0), a.shape)
    if jnp.issubdtype(a.dtype, jnp.floating):
        return np.resize(rng.uniform(0.1, 1.0, 997), a.shape).astype(a.dtype)
    return np.full(a.shape, a.dtype == bool, a.dtype)
