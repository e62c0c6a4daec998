"""What a client sends in place of its upload, and what the server makes of it."""

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
SURE = 2.0  # standard deviations of its noise that the weight of a class must exceed


class Contribution(NamedTuple):
    """What prototypes are made of."""

    of_example: Callable  # feat_BD, y_B -> [B, S], added to the rows of the classes
    weighed: bool  # a last column counts, and the server divides by its sum


MEANS = Contribution(lambda feat_BD, y_B: feat_BD, weighed=True)


def append_weight_column(row: Array, on: Array | float = 1.0) -> Array:
    """Rows [..., S] with another column, `on`."""
    column = jnp.broadcast_to(jnp.asarray(on, row.dtype), row.shape[:-1])
    return jnp.concatenate([row, column[..., None]], -1)


def class_rows(
    net: Net, body: Client, data: Data, made: Contribution, clip: Real, classes: int
) -> Array:
    """Sums over a client's examples [C, S] of rows clipped one by one."""

    def f(batch):
        feat_BD = own_features(net, body, batch.x)
        row_BS = made.of_example(feat_BD, batch.y)
        row_BS = append_weight_column(row_BS) if made.weighed else row_BS
        row_BS = rows_clipped(row_BS, clip)
        return kernels.class_sum(row_BS, batch.y, batch.mask, classes)[0]

    return sum_over_batches(f, data)


def clip_client_rows(up: Protos, made: Contribution, clip) -> Array:
    """All prototypes of a client, clipped as one vector; zeros where it has none."""
    here_C = up.count > 0
    row_CS = jnp.where(here_C[:, None], up.mean, 0.0)
    return clip_by_norm(
        append_weight_column(row_CS, here_C) if made.weighed else row_CS, clip
    )


def add_missing_noise(
    total: Tree, privacy: Privacy, clients: Array, key: Array
) -> Tree:
    """A sum with the noise of those of the m clients whose upload did not come.

    Unit `client`, whose server is trusted: a sum has all the noise that is accounted
    for, whoever is lost on the way.
    """
    if privacy.unit != CLIENT:
        return total
    lost = jnp.maximum(privacy.among - clients, 0.0)
    own = jax.random.fold_in(key, LOST)  # nothing else of the server's step shows it
    return add_gaussian_noise(total, privacy.deviation * jnp.sqrt(lost), own)


def denoised_means(total_CS: Array, deviation: Real, made: Contribution) -> Protos:
    """A noisy sum of rows without its column of weights.

    A class whose weight is not surely above 0 is absent. It is made of what is noisy
    already, so it costs no privacy.

    Args:
      total_CS: of one client or more.
      deviation: of the noise of the sum.
      made: of what the rows are; without weights they stay sums.
    """
    if not made.weighed:
        return Protos(total_CS, jnp.ones(len(total_CS)))
    weight_C = total_CS[:, -1]
    here_C = weight_C > SURE * deviation
    mean_CS = total_CS[:, :-1] / jnp.where(here_C, weight_C, 1.0)[:, None]
    mean_CS = jnp.where(here_C[:, None], mean_CS, 0.0)
    return Protos(mean_CS, here_C.astype(jnp.float32))


def sum_noisy_uploads(
    up: Protos, privacy: Privacy, made: Contribution, key: Array
) -> Protos:
    """Noisy uploads [K, C, S] as one upload [1, C, S]; zeros if nobody is there."""
    clients = jnp.sum(up.count[:, 0] > 0)
    total_CS = jnp.sum(up.mean, 0)  # rows of who is not there are zero
    total_CS = add_missing_noise(total_CS, privacy, clients, key)
    shares = privacy.among if privacy.unit == CLIENT else clients
    whole = denoised_means(total_CS, privacy.deviation * jnp.sqrt(shares), made)
    return jax.tree.map(lambda a: jnp.where(clients > 0, a, 0.0)[None], whole)


def private_prototypes(
    method: Method, privacy: Privacy, made: Contribution, classes: int
) -> Method:
    """A method whose upload is `Protos`, under differential privacy.

    Neither presence nor counts are sent: every client sends a row for every class.
    """
    if privacy.unit == OFF:
        return method

    def release(net, after, data, up, down, key):
        del down
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
    """A method whose upload has `params`, and a `size` that weighs them.

    Unit `client`: the change since the broadcast is clipped and noisy, and all weigh
    the same. Unit `example`: the parameters are those of DP-SGD, and sizes are public.
    """
    if privacy.unit in (OFF, EXAMPLE):
        return method

    def release(net, after, data, up, down, key):
        del net, after, data
        change = clip_by_norm(jax.tree.map(jnp.subtract, up.params, down), privacy.clip)
        change = add_gaussian_noise(change, privacy.deviation, key)
        params = jax.tree.map(jnp.add, down, change)
        return up._replace(params=params, size=jnp.ones_like(up.size))

    mean = method.aggregation
    assert mean.summand is not None, "its clients are added up"

    def finish(net, server, total, key):
        changed, clients = total
        changed = add_missing_noise(changed, privacy, clients, key)
        return mean.finish(net, server, (changed, clients), key)

    update = Aggregation(finish, mean.summand)
    return dataclasses.replace(method, release=release, update=update)
