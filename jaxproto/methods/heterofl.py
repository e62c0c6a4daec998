"""HeteroFL and FedRolex: clients train narrower parts of one network.

Diao, Ding, Tarokh: HeteroFL: Computation and Communication Efficient Federated Learning
for Heterogeneous Clients, ICLR 2021, https://arxiv.org/abs/2010.01264. Alam, Liu, Yan,
Zhang: FedRolex: Model-Heterogeneous Federated Learning with Rolling Sub-Model
Extraction, NeurIPS 2022, https://arxiv.org/abs/2212.01548. A client of share s has of
each hidden layer of n units the units

    0 to ceil(s n) - 1                          (HeteroFL)
    r to r + ceil(s n) - 1, modulo n, round r   (FedRolex)

and of the network the entries between its units. It receives, trains and sends these.
An entry of the server's network is the mean over the clients that sent it, or stays.

Written from public descriptions; the papers' text was not read.

Deviations (papers and HeteroFL's code / here):
- shares: 1, 1/2, 1/4 and so on, fixed or drawn anew / 1/2^l for level l, which is the
  client's id modulo `levels`.
- network of a client: the part / the whole, whose other entries are 0 and get no
  gradient. Layers are in the order of their names.
- activations in training: divided by the share (HeteroFL) / as they are.
- BatchNorm: statistics of all data after training (HeteroFL) / each client's own.
- loss: 0 as logits of classes that a client lacks (HeteroFL) / all logits.
- head: rows of classes from the clients that have them (HeteroFL's code) / from all.
- message: the part / the part and one bit per entry of the whole.
- prediction: the server's network / own part after training (`head`), part of the
  server's network (`received`).
"""

import dataclasses
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxproto.core.hyperparameters import Range
from jaxproto.core.method import Method
from jaxproto.core.types import Array, PerClient, Spec, Top, Tree
from jaxproto.methods.fedavg import fedavg, received_as
from jaxproto.models.ops import channel_pool


class HeteroFLState(NamedTuple):
    """State of the server."""

    params: Tree
    round: Array  # [] of the state, from 0


class HeteroFLUpload(NamedTuple):
    """Upload of a client."""

    part: Top  # [P] entries of the network


def has_unit(size: int, share: float, first: Array | int) -> Array:
    """Returns whether a part has each unit of a layer [size]."""
    kept = -int(-share * size // 1)
    return (jnp.arange(size) - first) % size < kept


def part_of(params: Tree, share: float, first: Array | int) -> Tree:
    """Returns which entries of a network's parameters are in a part.

    The inputs of a layer are cut as the units of a layer of equal width, or else of the
    last layer before it whose width divides the number of inputs, as behind a flattened
    image. The head has the features in which a unit of the last layer is pooled. Inputs
    of the first layer and outputs of the head are never cut.
    """
    widths = [a.shape[-1] for a in jax.tree.leaves(params["body"]) if a.ndim > 1]
    earlier: list[int] = []  # widths of the layers before

    def rows(size):
        divides = (n for n in reversed(earlier) if size % n == 0)
        width = size if size in widths else next(divides, 0)
        if not earlier or not width:
            return jnp.ones(size, bool)
        return jnp.tile(has_unit(width, share, first), size // width)

    def of_body(a):
        kept = has_unit(a.shape[-1], share, first)
        if a.ndim > 1:
            kept &= rows(a.shape[-2])[:, None]
            earlier.append(a.shape[-1])
        return jnp.broadcast_to(kept, a.shape)

    body = jax.tree.map(of_body, params["body"])
    last = earlier[-1:]

    def of_head(a):
        if a.ndim == 1 or not last:  # a bias, or a later layer of the head
            return jnp.ones(a.shape, bool)
        unit = has_unit(last.pop(), share, first).astype(jnp.float32)
        kept = channel_pool(unit[None], a.shape[-2])[0] > 0
        return jnp.broadcast_to(kept[:, None], a.shape)

    head = jax.tree.map(of_head, params["head"])
    return {"body": body, "head": head}


def heterofl(
    spec: Spec,
    *,
    levels: Annotated[int, Range("from 1 to 10", 1, 10)] = 3,
    rolling: bool = False,
    num_clients: int | None = None,
) -> Method:
    """HeteroFL; FedRolex with `rolling`.

    Args:
      levels: number of different shares of the network.
      rolling: parts move by one unit every round (FedRolex), or stay (HeteroFL).
      num_clients: N; None is 1. From a configuration it is filled in.
    """
    level_N = np.arange(num_clients or 1) % levels

    def broadcast(server):
        first, net = server.round if rolling else 0, server.params["net"]
        parts = [part_of(net, 0.5**level, first) for level in range(levels)]
        sent_LP = jnp.stack([ravel_pytree(part)[0] for part in parts])
        value_P = ravel_pytree(net)[0]
        return PerClient(Top(jnp.where(sent_LP, value_P, 0.0), sent_LP), level_N)

    def receive(params, part):
        return {**params, "net": ravel_pytree(params["net"])[1](part.value)}

    def upload(net, before, after, data, down, sums):
        value_P = ravel_pytree(after.params["net"])[0]
        return HeteroFLUpload(Top(value_P, down.sent)), after.memory

    def update(net, server, up, key):
        old_P, unravel = ravel_pytree(server.params)
        count_P = jnp.sum(up.part.sent, 0)
        sum_P = jnp.sum(up.part.value * up.part.sent, 0)
        mean_P = jnp.where(count_P > 0, sum_P / jnp.maximum(count_P, 1), old_P)
        return HeteroFLState(unravel(mean_P), server.round + 1)

    base = fedavg(spec)
    return dataclasses.replace(
        base,
        init_server=lambda net, key: HeteroFLState(
            base.init_server(net, key), jnp.int32(0)
        ),
        broadcast=broadcast,
        **received_as(receive),
        upload=upload,
        update=update,
        title="FedRolex" if rolling else "HeteroFL",
        nominal=None,
    )
