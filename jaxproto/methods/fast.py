"""FAST: FedAvg under any participation, with occasional rounds of uniform sampling.

Li, Nabavirazavi, Ying, Iyengar, Yang: FAST: A Lightweight Mechanism Unleashing
Arbitrary Client Participation in Federated Learning, IJCAI 2025, pp. 5644-5652.
Code: https://github.com/RogerRogerUSC/FAST.

    with probability q a snapshot: a share of the clients, uniformly; else participants
    of the configured sampler                                              (Algorithm 1)
    w = mean of w_i over the participants
    adaptive: q <- clip(q + gamma (previous accuracy - accuracy), 0, 1)

Other rounds sample by `participation.law`, whose share of the clients is
`participation.fraction`, not `fraction`. With q = 1 FAST is FedAvg with equal weights
and uniform sampling. Clients that a sampler rarely draws have old BatchNorm
statistics, by which `received` is judged as well; the 4-layer CNN has none.

Deviations (paper / released code / here), besides those of FedAvg:
- mean: over participants / unweighted / unweighted.
- local work: tau steps / steps, or less at the end of an epoch / epochs, as everywhere.
- size of a snapshot: m / a tenth, cut to a whole number / `fraction`, a tenth, the
  nearest whole number, at least 1. Of the samplers: `participation.py`.
- q: swept / 1 by default, where FAST is uniform sampling, 0.5 in the README's commands,
  from 0 with gamma 0.7 where it adapts / 0.5, `pace=adaptive`.
- accuracy: training / of the batches since a client's pass over its data began, maybe
  rounds ago, mean over clients / of a round's, over examples; clients send two counts.
- optimiser: SGD / by data set, its state kept over rounds / as configured; variant
  `code` of its configuration keeps it.
- BatchNorm statistics: not stated / local / local, or their mean (`statistics`).
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from jaxproto.core.hyperparameters import (
    NonNegative,
    PositiveShare,
    Share,
    check_argument,
)
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, LossAux, Spec, Tree
from jaxproto.methods.fedavg import (
    Statistical,
    fedavg,
    finish_weighted_mean,
    local_statistics,
    weighted_summand,
)
from jaxproto.prototypes import losses
from jaxproto.round import participation


class FastState(NamedTuple):
    """State of the server, which broadcasts the parameters."""

    params: Tree
    q: Array  # [] probability of a snapshot
    accuracy: Array  # [] of the last round, 0 before the first


class FASTUpload(NamedTuple):
    """Upload of a client."""

    params: Tree
    here: Array  # [] 1
    seen: Tree  # () or correct predictions and examples in the local steps


class SnapshotSchedule(NamedTuple):
    """Update of the probability of a snapshot."""

    seen: Callable  # sums of the loss -> what clients send of them
    step: Callable  # q, last accuracy, sum of seen, gamma -> q, accuracy


def adapt_probability(q: Array, last: Array, seen, gamma) -> tuple[Array, Array]:
    """Raises the probability when the training accuracy falls, lowers it otherwise."""
    hits, examples = seen
    accuracy = jnp.where(examples > 0, hits / jnp.maximum(examples, 1.0), last)
    return jnp.clip(q + gamma * (last - accuracy), 0.0, 1.0), accuracy


FIXED = SnapshotSchedule(lambda sums: (), lambda q, last, seen, gamma: (q, last))
ADAPTIVE = SnapshotSchedule(lambda sums: sums, adapt_probability)


def fast(
    spec: Spec,
    *,
    q: Share = 0.5,
    fraction: PositiveShare = 0.1,
    pace: SnapshotSchedule = FIXED,
    gamma: NonNegative = 0.7,
    statistics: Statistical = local_statistics,
) -> Method:
    """FAST.

    Args:
      q: probability of a snapshot round, which samples `fraction` of the clients; where
        it adapts, the first one (released code: 1, and 0 where it adapts; its README:
        0.5).
      fraction: share of the clients in a snapshot round (released code).
      pace: schedule of q over the rounds: FIXED, or ADAPTIVE by the training accuracy.
      gamma: speed at which q adapts (released code).

    Raises:
      UserError: `q` or `fraction` is out of its range.
    """
    check_argument("q", q, Share)
    check_argument("fraction", fraction, PositiveShare)
    base = fedavg(spec)

    def init_server(net, key):
        params = base.init_server(net, key)
        return FastState(params, jnp.asarray(q, jnp.float32), jnp.zeros(()))

    def adjust_sampler(sampler, server):
        return participation.mixture(participation.uniform(fraction), sampler, server.q)

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        hit_B = (jnp.argmax(out.logits, -1) == batch.y) * batch.mask
        return ce, LossAux({"net": out.norm}, (jnp.sum(hit_B), jnp.sum(batch.mask)))

    def upload(net, before, after, data, down, sums):
        return FASTUpload(after.params, jnp.int32(1), pace.seen(sums)), after.memory

    def summand(up):
        return weighted_summand(up.params, up.here), up.seen

    def finish(net, server, total, key):
        schedule = pace.step(server.q, server.accuracy, total[1], gamma)
        return FastState(finish_weighted_mean(total[0], server.params), *schedule)

    method = dataclasses.replace(
        base,
        init_server=init_server,
        broadcast=lambda server: server.params,
        adjust_sampler=adjust_sampler,
        loss=loss,
        upload=upload,
        title="FAST",
        update=Aggregation(finish, summand),
    )
    return statistics(method, lambda up: up.here)
