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

from jaxproto.core.method import Method
from jaxproto.core.types import Array, Spec, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import averaged_part
from jaxproto.methods.local import local


class FedPerUpload(NamedTuple):
    """Upload of a client."""

    body: Tree
    size: Array  # [] n_i; 0 means "not there"


def with_parts(params: Tree, **parts: Tree) -> Tree:
    """Replaces the body, the head or both in a client's parameters."""
    return {**params, "net": {**params["net"], **parts}}


def fedper(spec: Spec) -> Method:
    """FedPer: local training that starts from the received body."""
    return dataclasses.replace(
        local(spec),
        init_server=lambda net, key: net.init(key)[0]["body"],
        receive=lambda params, down: with_parts(params, body=down),
        **averaged_part(lambda params: params["net"]["body"], FedPerUpload),
        title="FedPer",
        homogeneous=True,
        nominal=nominal.networks("body"),
    )
