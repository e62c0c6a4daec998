"""FedAvg, and the base of methods that average whole networks.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of
Deep Networks from Decentralized Data, AISTATS 2017, https://arxiv.org/abs/1602.05629.

    w_i = w after local steps of SGD on the client's cross-entropy    (Algorithm 1)
    w   = sum_i (n_i / n) w_i over the clients that report            (Algorithm 1)

Every method built on it is evaluated twice: `received` is the global network, `head`
the client's own after its local training.

Deviations (paper / released code, PFLlib / here):
- BatchNorm statistics: not stated / local, the server keeps the first uploader's; the
  code of VHL and FedUV averages them / local. A client that never took part has those
  of an untrained network, so `received` means little for it. With
  `statistics=averaged`, in every method built on this one, clients send them, the
  server averages them with the method's own weights, clients start from the mean, and
  `received` uses it.
- evaluation: one test set, global network / the clients' test data, global network /
  the clients' test data (all have the official one with `data.pool=False`), both.
- a round in which nobody reports: not stated / cannot be / the network stays.
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.method import Aggregation, Method, own_network
from jaxproto.core.types import Array, Spec, Statistics, Tree
from jaxproto.methods import nominal
from jaxproto.methods.local import local
from jaxproto.wrappers.privacy import NONE, UPDATES, Privacy
from jaxproto.wrappers.privacy.release import private_update


class FedAvgUpload(NamedTuple):
    """Upload of a client."""

    params: Tree
    size: Array  # [] n_i; 0 means "not there"


def normalise_weights(weight_K: Array) -> Array:
    """Divides weights [K] by their sum; all zero if no upload arrived."""
    weight_K = weight_K.astype(jnp.float32)
    total = jnp.sum(weight_K)
    return weight_K / jnp.where(total > 0, total, 1.0)


def weighted_mean(tree: Tree, weight_K: Array, otherwise: Tree) -> Tree:
    """Averages every array [K, ...] over clients; `otherwise` if all weights are 0."""
    share_K, anybody = normalise_weights(weight_K), jnp.any(weight_K > 0)

    def mean(a, old):
        return jnp.where(anybody, jnp.tensordot(share_K, a, 1), old)

    return jax.tree.map(mean, tree, otherwise)


def weighted_summand(tree: Tree, weight: Array) -> tuple[Tree, Array]:
    """Returns a client's summand of a weighted mean; see `finish_weighted_mean`."""
    weight = weight.astype(jnp.float32)
    return jax.tree.map(lambda a: weight * a, tree), weight


def finish_weighted_mean(total: tuple[Tree, Array], otherwise: Tree) -> Tree:
    """Returns the mean from the sum of `weighted_summand`; `otherwise` at weight 0."""
    tree, weight = total
    divisor = jnp.where(weight > 0, weight, 1.0)
    return jax.tree.map(
        lambda a, old: jnp.where(weight > 0, a / divisor, old), tree, otherwise
    )


def weighted_average_update(
    part: Callable[[Tree], Tree], weight: Callable[[Tree], Array]
):
    """Returns the aggregation to a weighted mean; the state stays if none arrived.

    Args:
      part: an upload -> tree to average.
      weight: an upload -> its weight, 0 for a lost upload.
    """
    return Aggregation(
        finish=lambda net, server, total, key: finish_weighted_mean(total, server),
        summand=lambda up: weighted_summand(part(up), weight(up)),
    )


def size_weights(up: Tree) -> Array:
    """Returns n_i of uploads."""
    return up.size


def averaged_part(
    part: Callable[[Tree], Tree], upload_type: Callable = FedAvgUpload
) -> dict:
    """Returns the fields of a method whose clients share a part of their parameters.

    Args:
      part: parameters of a client -> what the server averages, weighted by n_i.
      upload_type: type of uploads, of the part and n_i.
    """

    def upload(net, before, after, data, down, sums):
        return upload_type(part(after.params), data.shard.size), after.memory

    update = weighted_average_update(lambda up: up[0], size_weights)
    return {"upload": upload, "update": update}


def received_as(receive: Callable[[Tree, Tree], Tree]) -> dict:
    """Returns the fields of a method whose clients start from what they receive.

    Its rules are `head` (trained by the client) and `received` (broadcast).

    Args:
      receive: as of `Method`.
    """

    def predict(net, client, x, down):
        def logits(params):
            return net.apply(params["net"], client.norm["net"], x, False).logits

        received = receive(client.params, down)
        return {"head": logits(client.params), "received": logits(received)}

    return {"receive": receive, "predict": predict}


def local_statistics(
    method: Method, weight: Callable[[Tree], Array] = size_weights
) -> Method:
    """Keeps BatchNorm statistics on the clients."""
    return method


class WithStatistics(NamedTuple):
    """Server state, broadcast or upload of a method, with BatchNorm statistics."""

    own: Tree
    norm: Statistics


def averaged_statistics(
    method: Method, weight: Callable[[Tree], Array] = size_weights
) -> Method:
    """Averages BatchNorm statistics as well as parameters.

    Args:
      method: with one network per client and one exchange a round.
      weight: all uploads of the method -> weights [K], 0 for lost uploads.
    """

    def init_server(net, key):
        norm = Statistics(method.init_client(net, key)[1])
        return WithStatistics(method.init_server(net, key), norm)

    def loss(net, params, norm, batch, down, client):
        return method.loss(net, params, norm, batch, down.own, client)

    def upload(net, before, after, data, down, sums):
        up, memory = method.upload(net, before, after, data, down.own, sums)
        return WithStatistics(up, Statistics(after.norm)), memory

    def summand(up):
        norm = weighted_summand(up.norm, weight(up.own))
        return method.aggregation.summand(up.own), norm

    def of_sums(net, server, total, key):
        own = method.aggregation.finish(net, server.own, total[0], key)
        return WithStatistics(own, finish_weighted_mean(total[1], server.norm))

    def of_uploads(net, server, up, key):
        own = method.update(net, server.own, up.own, key)
        return WithStatistics(own, weighted_mean(up.norm, weight(up.own), server.norm))

    summed = method.aggregation.summand is not None

    def predict(net, client, x, down):
        rules = method.predict(net, client, x, down.own)
        with_mean = client.replace(norm=down.norm.value)
        rules_with_mean = method.predict(net, with_mean, x, down.own)
        return {**rules, "received": rules_with_mean["received"]}

    return dataclasses.replace(
        method,
        init_server=init_server,
        broadcast=lambda server: server._replace(own=method.broadcast(server.own)),
        receive=lambda params, down: method.receive(params, down.own),
        receive_stats=lambda norm, down: down.norm.value,
        loss=loss,
        upload=upload,
        update=Aggregation(of_sums, summand) if summed else Aggregation(of_uploads),
        predict=predict,
        adjust_sampler=lambda sampler, server: method.adjust_sampler(
            sampler, server.own
        ),
    )


Statistical = Callable[..., Method]  # method, weight -> method: one of these two


def fedavg(
    spec: Spec,
    *,
    statistics: Statistical = local_statistics,
    privacy: Annotated[Privacy, UPDATES] = NONE,
) -> Method:
    """FedAvg; the server keeps and broadcasts one network's parameters.

    Args:
      statistics: `local_statistics` or `averaged_statistics`, of BatchNorm.
      privacy: clipping and noise of what clients send.
    """
    method = dataclasses.replace(
        local(spec),
        init_server=lambda net, key: own_network(net, key)[0],
        **received_as(lambda params, down: down),
        **averaged_part(lambda params: params),
        title="FedAvg",
        homogeneous=True,
        nominal=nominal.networks("net"),
    )
    return statistics(private_update(method, privacy))
