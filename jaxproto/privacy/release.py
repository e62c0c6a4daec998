"""Methods under differential privacy: noisy uploads and their aggregation."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import kernels
from jaxproto.batches import sum_over_batches
from jaxproto.hyperparameters import Real
from jaxproto.method import Aggregation, Method, own_features
from jaxproto.privacy.mechanism import (
    CLIENT,
    EXAMPLE,
    OFF,
    Privacy,
    add_gaussian_noise,
    clip_by_norm,
    rows_clipped,
)
from jaxproto.types import Array, Client, Data, Net, Protos, Tree

LOST = 1  # stream of the server's key
SURE = 2.0  # standard deviations of noise that the weight of a class must exceed


class Contribution(NamedTuple):
    """Rows that examples contribute to the sums of the classes."""

    of_example: Callable  # feat_BD, y_B -> [B, S], added to the rows of the classes
    weighed: bool  # a last column counts, and the server divides by its sum


MEANS = Contribution(lambda feat_BD, y_B: feat_BD, weighed=True)


def append_weight_column(row: Array, on: Array | float = 1.0) -> Array:
    """Appends the column `on` to rows [..., S]."""
    column = jnp.broadcast_to(jnp.asarray(on, row.dtype), row.shape[:-1])
    return jnp.concatenate([row, column[..., None]], -1)


def class_rows(
    net: Net, body: Client, data: Data, made: Contribution, clip: Real, classes: int
) -> Array:
    """Sums the rows of a client's examples by class [C, S], each row clipped."""

    def f(batch):
        feat_BD = own_features(net, body, batch.x)
        row_BS = made.of_example(feat_BD, batch.y)
        row_BS = append_weight_column(row_BS) if made.weighed else row_BS
        row_BS = rows_clipped(row_BS, clip)
        return kernels.class_sum(row_BS, batch.y, batch.mask, classes)[0]

    return sum_over_batches(f, data)


def clip_client_rows(up: Protos, made: Contribution, clip) -> Array:
    """Returns a client's prototypes clipped as one vector; absent ones are zero."""
    present_C = up.count > 0
    row_CS = jnp.where(present_C[:, None], up.mean, 0.0)
    return clip_by_norm(
        append_weight_column(row_CS, present_C) if made.weighed else row_CS, clip
    )


def add_missing_noise(
    total: Tree, privacy: Privacy, clients: Array, key: Array
) -> Tree:
    """Adds the noise shares of clients whose upload was lost to a sum.

    For unit `client`, whose server is trusted: the sum then has all the noise that is
    accounted for.

    Args:
      total: sum of the uploads that arrived.
      clients: number of uploads that arrived.
    """
    if privacy.unit != CLIENT:
        return total
    lost = jnp.maximum(privacy.among - clients, 0.0)
    noise_key = jax.random.fold_in(key, LOST)  # used for nothing else by the server
    return add_gaussian_noise(total, privacy.deviation * jnp.sqrt(lost), noise_key)


def denoised_means(total_CS: Array, deviation: Real, made: Contribution) -> Protos:
    """Returns a noisy sum of rows without its column of weights.

    A class whose weight is not surely above 0 is absent. The weight is noisy already,
    so that this costs no privacy.

    Args:
      total_CS: sum of the rows of one client or more [C, S].
      deviation: standard deviation of the noise of the sum.
      made: form of the rows; without weights they stay sums.
    """
    if not made.weighed:
        return Protos(total_CS, jnp.ones(len(total_CS)))
    weight_C = total_CS[:, -1]
    present_C = weight_C > SURE * deviation
    mean_CS = total_CS[:, :-1] / jnp.where(present_C, weight_C, 1.0)[:, None]
    mean_CS = jnp.where(present_C[:, None], mean_CS, 0.0)
    return Protos(mean_CS, present_C.astype(jnp.float32))


def sum_noisy_uploads(
    up: Protos, privacy: Privacy, made: Contribution, key: Array
) -> Protos:
    """Joins noisy uploads [K, C, S] to one [1, C, S]; zeros if none arrived."""
    clients = jnp.sum(up.count[:, 0] > 0)
    total_CS = jnp.sum(up.mean, 0)  # lost uploads are zero
    total_CS = add_missing_noise(total_CS, privacy, clients, key)
    shares = privacy.among if privacy.unit == CLIENT else clients
    mean = denoised_means(total_CS, privacy.deviation * jnp.sqrt(shares), made)
    return jax.tree.map(lambda a: jnp.where(clients > 0, a, 0.0)[None], mean)


def private_prototypes(
    method: Method, privacy: Privacy, made: Contribution, classes: int
) -> Method:
    """Returns a method that uploads `Protos`, under differential privacy.

    Neither presence nor counts are sent: every client sends a row for every class.
    """
    if privacy.unit == OFF:
        return method

    def release(net, after, data, up, down, key):
        if privacy.unit == EXAMPLE:
            row_CS = class_rows(net, after, data, made, privacy.clip, classes)
        else:
            row_CS = clip_client_rows(up, made, privacy.clip)
        row_CS = add_gaussian_noise(row_CS, privacy.deviation, key)
        return Protos(row_CS, jnp.ones(classes))

    def update(net, server, up, key):
        return method.update(
            net, server, sum_noisy_uploads(up, privacy, made, key), key
        )

    return dataclasses.replace(method, release=release, update=update)


def private_update(method: Method, privacy: Privacy) -> Method:
    """Returns a method that uploads `params` and their `size`, under privacy.

    Unit `client`: the change since the broadcast is clipped and noisy, and all clients
    have equal weights. Unit `example`: DP-SGD has trained the parameters already, and
    sizes are public.
    """
    if privacy.unit in (OFF, EXAMPLE):
        return method

    def release(net, after, data, up, down, key):
        change = clip_by_norm(jax.tree.map(jnp.subtract, up.params, down), privacy.clip)
        change = add_gaussian_noise(change, privacy.deviation, key)
        params = jax.tree.map(jnp.add, down, change)
        return up._replace(params=params, size=jnp.ones_like(up.size))

    mean = method.aggregation
    assert mean.summand is not None, "the aggregation must sum over the clients"

    def finish(net, server, total, key):
        changed, clients = total
        changed = add_missing_noise(changed, privacy, clients, key)
        return mean.finish(net, server, (changed, clients), key)

    update = Aggregation(finish, mean.summand)
    return dataclasses.replace(method, release=release, update=update)
