"""LG-FedAvg: a shared head on private bodies.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency: Think Locally, Act
Globally: Federated Learning with Local and Global Representations, 2020,
https://arxiv.org/abs/2001.01523. Client i has a body theta_i of its own and
the head phi:

    loss   = CE(phi(theta_i(x)), y)                 over both, starting from phi
    phi    = sum_i n_i phi_i / sum_i n_i

Deviations (paper / released code / here; code: HtFLlib):
- first head: not stated / that of client 0 / one that the server draws.
- prediction: the trained network for the client's own data, the mean of all networks
  for other data / own body with the received head / that (`received`), and the own head
  after training (`head`).
- heads of the EfficientNet with dropout: - / in some forks / `model.group`.
- cost: - / the head without its bias, both directions / what is sent: the bias and n_i
  as well.
"""

import dataclasses
from typing import NamedTuple

from jaxproto.core.method import Method
from jaxproto.core.types import Array, Client, Net, Spec, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import averaged_part
from jaxproto.methods.fedper import with_parts
from jaxproto.methods.local import local


class LGFedAvgUpload(NamedTuple):
    """Upload of a client."""

    head: Tree
    size: Array  # [] n_i


def by_both_heads(net: Net, client: Client, x: Array, down: Tree) -> dict[str, Array]:
    """Returns the rules `head` (own head) and `received` (the server's head)."""
    out = net.apply(client.params["net"], client.norm["net"], x, False)
    return {"head": out.logits, "received": net.head(down, out.feat)}


def lg_fedavg(spec: Spec) -> Method:
    """LG-FedAvg: local training that starts from the received head."""
    return dataclasses.replace(
        local(spec),
        init_server=lambda net, key: net.init(key)[0]["head"],
        receive=lambda params, down: with_parts(params, head=down),
        **averaged_part(lambda params: params["net"]["head"], LGFedAvgUpload),
        predict=by_both_heads,
        title="LG-FedAvg",
        nominal=nominal.heads(spec),
    )
