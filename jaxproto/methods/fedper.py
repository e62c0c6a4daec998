"""FedPer: a shared body under private heads.

Arivazhagan, Aggarwal, Singh, Choudhary: Federated Learning with Personalization
Layers, 2019, https://arxiv.org/abs/1912.00818. Client i has a head phi_i of its own on
the body theta that all share:

    loss  = CE(phi_i(theta(x)), y)              over both, starting from theta
    theta = sum_i (n_i / n) theta_i             over the clients that report

Deviations (paper / here; its authors released no code):
- personalisation layers: the last ones, how many is part of the experiment / the head.
- BatchNorm statistics: not stated / each client's own.
- prediction: own network, before or after local training not stated / after (`head`).
- a round in which nobody reports: cannot be / the body stays.
"""

import dataclasses
from typing import NamedTuple

from jaxproto.method import Method
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import size_weights, weighted_average_update
from jaxproto.methods.local import local
from jaxproto.types import Array, Spec, Tree


class FedPerUpload(NamedTuple):
    """Upload of a client."""

    body: Tree
    size: Array  # [] n_i; 0 means "not there"


def with_body(params: Tree, body: Tree) -> Tree:
    """Replaces the body in a client's parameters."""
    return {**params, "net": {**params["net"], "body": body}}


def fedper(spec: Spec) -> Method:
    """FedPer: local training that starts from the received body."""

    def upload(net, before, after, data, down, sums):
        return FedPerUpload(after.params["net"]["body"], data.shard.size), after.memory

    return dataclasses.replace(
        local(spec),
        init_server=lambda net, key: net.init(key)[0]["body"],
        receive=with_body,
        upload=upload,
        update=weighted_average_update(lambda up: up.body, size_weights),
        title="FedPer",
        homogeneous=True,
        nominal=nominal.networks("body"),
    )
