"""Methods under differential privacy: noisy uploads and their aggregation."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.batches import sum_over_batches
from jaxproto.core.hyperparameters import Real
from jaxproto.core.method import Aggregation, Method, own_features
from jaxproto.core.types import Array, Client, Data, Net, Protos, Tree
from jaxproto.prototypes import kernels
from jaxproto.wrappers.privacy.mechanism import (
    CLIENT,
    EXAMPLE,
    OFF,
    Privacy,
    add_gaussian_noise,
    clip_by_norm,
)

LOST = 1  # stream of the server's key
SURE = 2.0  # the weight of a present class exceeds this many noise deviations


class Contribution(NamedTuple):
    """Rows that examples contribute to the sums of the classes."""

    of_example: Callable  # feat_BD, y_B -> [B, S], added to the rows of the classes
    weighed: bool  # a last column has weights, and the server divides by their sum


MEANS = Contribution(lambda feat_BD, y_B: feat_BD, weighed=True)


def append_weight_column(row: Array, weight: Array | float = 1.0) -> Array:
    """Appends a column of weights to rows [..., S]."""
    column = jnp.broadcast_to(jnp.asarray(weight, row.dtype), row.shape[:-1])
    return jnp.concatenate([row, column[..., None]], -1)


def class_rows(
    net: Net,
    client: Client,
    data: Data,
    contribution: Contribution,
    clip: Real,
    classes: int,
) -> Array:
    """Returns the sum per class [C, S] of the clipped rows of a client's examples."""

    def batch_sum(batch):
        feat_BD = own_features(net, client, batch.x)
        row_BS = contribution.of_example(feat_BD, batch.y)
        row_BS = append_weight_column(row_BS) if contribution.weighed else row_BS
        row_BS = jax.vmap(lambda row: clip_by_norm(row, clip))(row_BS)
        return kernels.class_sum(row_BS, batch.y, batch.mask, classes)[0]

    return sum_over_batches(batch_sum, data)


def clip_client_rows(up: Protos, contribution: Contribution, clip: Real) -> Array:
    """Returns a client's prototypes clipped as one vector; absent ones are zero."""
    present_C = up.count > 0
    row_CS = jnp.where(present_C[:, None], up.mean, 0.0)
    if contribution.weighed:
        row_CS = append_weight_column(row_CS, present_C)
    return clip_by_norm(row_CS, clip)


def add_missing_noise(
    total: Tree, privacy: Privacy, clients: Array, key: Array
) -> Tree:
    """Adds to a sum the noise shares of clients whose upload was lost.

    The sum then has all the noise that is accounted for. Only unit `client` needs this;
    its server is trusted.

    Args:
      total: sum of the uploads that arrived.
      clients: number of uploads that arrived.
    """
    if privacy.unit != CLIENT:
        return total
    lost = jnp.maximum(privacy.among - clients, 0.0)
    noise_key = jax.random.fold_in(key, LOST)  # used for nothing else by the server
    return add_gaussian_noise(total, privacy.deviation * jnp.sqrt(lost), noise_key)


def denoised_means(
    total_CS: Array, deviation: Real, contribution: Contribution
) -> Protos:
    """Returns the means of a noisy sum of rows, or the sum if rows have no weights.

    A class is absent if its weight is at most `SURE` deviations. The weight is noisy
    already, so that this costs no privacy.

    Args:
      total_CS: sum of the rows of one client or more [C, S].
      deviation: standard deviation of the noise of the sum.
      contribution: form of the rows.
    """
    if not contribution.weighed:
        return Protos(total_CS, jnp.ones(len(total_CS)))
    weight_C = total_CS[:, -1]
    present_C = weight_C > SURE * deviation
    mean_CS = total_CS[:, :-1] / jnp.where(present_C, weight_C, 1.0)[:, None]
    mean_CS = jnp.where(present_C[:, None], mean_CS, 0.0)
    return Protos(mean_CS, present_C.astype(jnp.float32))


def sum_noisy_uploads(
    up: Protos, privacy: Privacy, contribution: Contribution, key: Array
) -> Protos:
    """Joins noisy uploads [K, C, S] to one [1, C, D]; zeros if none arrived."""
    clients = jnp.sum(up.count[:, 0] > 0)
    total_CS = jnp.sum(up.mean, 0)  # lost uploads are zero
    total_CS = add_missing_noise(total_CS, privacy, clients, key)
    shares = privacy.among if privacy.unit == CLIENT else clients
    deviation = privacy.deviation * jnp.sqrt(shares)
    mean = denoised_means(total_CS, deviation, contribution)
    return jax.tree.map(lambda a: jnp.where(clients > 0, a, 0.0)[None], mean)


def private_prototypes(
    method: Method, privacy: Privacy, contribution: Contribution, classes: int
) -> Method:
    """Returns a method that uploads `Protos`, under differential privacy.

    Every client sends a row for every class, without presence or counts.
    """
    if privacy.unit == OFF:
        return method

    def release(net, after, data, up, down, key):
        if privacy.unit == EXAMPLE:
            row_CS = class_rows(net, after, data, contribution, privacy.clip, classes)
        else:
            row_CS = clip_client_rows(up, contribution, privacy.clip)
        row_CS = add_gaussian_noise(row_CS, privacy.deviation, key)
        return Protos(row_CS, jnp.ones(classes))

    def update(net, server, up, key):
        up = sum_noisy_uploads(up, privacy, contribution, key)
        return method.update(net, server, up, key)

    return dataclasses.replace(method, release=release, update=update)


def private_update(method: Method, privacy: Privacy) -> Method:
    """Returns a method that uploads `params` and their `size`, under privacy.

    Unit `client`: the change since the broadcast is clipped and noisy, and all clients
    have equal weights. A lost upload counts as no change: the server divides by the
    participants of a round, as a client may be lost because of its data (a node that
    diverges). Unit `example`: the method stays as it is, as DP-SGD has trained the
    parameters and sizes are public.
    """
    if privacy.unit != CLIENT:
        return method

    def release(net, after, data, up, down, key):
        change = clip_by_norm(jax.tree.map(jnp.subtract, up.params, down), privacy.clip)
        change = add_gaussian_noise(change, privacy.deviation, key)
        params = jax.tree.map(jnp.add, down, change)
        return up._replace(params=params, size=jnp.ones_like(up.size))

    plain = method.aggregation
    assert plain.summand is not None, "the aggregation must sum over the clients"

    def finish(net, server, total, key):
        params, clients = total
        lost = privacy.among - clients
        params = jax.tree.map(lambda a, old: a + lost * old, params, server)
        params = add_missing_noise(params, privacy, clients, key)
        divisor = jnp.where(clients > 0, privacy.among, 0.0)
        return plain.finish(net, server, (params, divisor), key)

    update = Aggregation(finish, plain.summand)
    return dataclasses.replace(method, release=release, update=update)
