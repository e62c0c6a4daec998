"""FedHP: learnt prototypes that stay near anchors spread on the sphere.

Fonio, Polato, Esposito: FedHP: Federated Learning with Hyperspherical Prototypical
Regularization, ESANN 2024,
https://www.esann.org/sites/default/files/proceedings/2024/ES2024-183.pdf. Client i has
a network f_i and prototypes p_ij, which start from the server's p_j; the anchors a_j
never change:

    loss = CE(-|f_i(x) - p_ij|_2, y) + mu mean_j (1 - cos(p_ij, a_j))
    p_j  = sum_i w_ij p_ij / sum_i w_ij,     w_ij = n_ij / n_i
    a    : unit vectors, by SGD on mean_j max_{k != j} a_j a_k; p_j = a_j at first

The equations are those of the authors' library, https://github.com/makgyver/fluke.

Deviations (that library / here):
- optimiser: SGD for f, Adam with rate 0.005 for p / that of the run for both.
- steps on the anchors: 1,000 of SGD with momentum 0.9, rate 0.1, decay 1e-4 / the same.
- w_ij: known to the server / of the counts n_ij, which clients send.
- p_ij of classes that client i does not hold: sent, weight 0 / not sent.
- class that no client reports: not a number / keeps p_j.
- after the last round: clients train once more / not.
- prediction: nearest p_ij after training / that (`head`), nearest p_j (`received`).
"""

import dataclasses
import functools

import flax.struct
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto.core.hyperparameters import NonNegative
from jaxproto.core.method import Method, own_features, own_network
from jaxproto.core.types import Array, ArrayLike, LossAux, Protos, Spec
from jaxproto.methods.local import local
from jaxproto.methods.moon import cosine
from jaxproto.prototypes import losses


@flax.struct.dataclass(eq=False)  # compared by identity: it is part of a method
class AnchorMessage:
    """Message of the server with the anchors, sent once."""

    anchors: ArrayLike  # [C, D]


@functools.cache
def spread_anchors(spec: Spec) -> np.ndarray:
    """Returns unit vectors [C, D] whose largest cosine to another one is small."""
    draw = np.random.default_rng(0).uniform(size=tuple(spec))
    point_CD, velocity_CD = draw, np.zeros_like(draw)
    for _ in range(1000):
        point_CD = point_CD / np.linalg.norm(point_CD, axis=1, keepdims=True)
        nearest_C = np.argmax(point_CD @ point_CD.T - 2 * np.eye(len(draw)), 1)
        grad_CD = point_CD[nearest_C]
        np.add.at(grad_CD, nearest_C, point_CD)
        grad_CD = grad_CD / len(draw) + 1e-4 * point_CD
        velocity_CD = 0.9 * velocity_CD + grad_CD
        point_CD = point_CD - 0.1 * velocity_CD
    point_CD = point_CD / np.linalg.norm(point_CD, axis=1, keepdims=True)
    return point_CD.astype(np.float32)


def distances(feat_BD: Array, proto_CD: Array) -> Array:
    """Returns |f - p_j|_2 [B, C], with gradient 0 at distance 0."""
    return optax.safe_norm(feat_BD[:, None] - proto_CD, 0.0, axis=-1)


def fedhp(spec: Spec, *, anchoring: NonNegative = 0.1) -> Method:
    """FedHP.

    Args:
      anchoring: mu, weight of the distance of prototypes to their anchors.
    """
    anchor_CD = spread_anchors(spec)

    def init_client(net, key):
        params, norm, memory = own_network(net, key)
        return {**params, "protos": jnp.asarray(anchor_CD)}, norm, memory

    def init_server(net, key):
        return Protos(jnp.asarray(anchor_CD), jnp.ones(spec.num_classes))

    def loss(net, params, norm, batch, down, client):
        out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
        away_BC = distances(out.feat, params["protos"])
        ce = losses.cross_entropy(-away_BC, batch.y, batch.mask)
        term = jnp.mean(1 - cosine(params["protos"], anchor_CD))
        return ce + anchoring * term, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        own = Protos(after.params["protos"], after.count, disclosed=True)
        return own, before.memory

    def update(net, server, up, key):
        total_K1 = jnp.sum(up.count, 1, keepdims=True)
        share_KC = up.count / jnp.maximum(total_K1, 1.0)
        seen_C1 = jnp.sum(share_KC, 0)[:, None]
        mean_CD = jnp.einsum("kcd,kc->cd", up.mean, share_KC)
        mean_CD = mean_CD / jnp.where(seen_C1 > 0, seen_C1, 1.0)
        return server.replace(mean=jnp.where(seen_C1 > 0, mean_CD, server.mean))

    def predict(net, client, x, down):
        feat = own_features(net, client, x)
        return {
            "head": -distances(feat, client.params["protos"]),
            "received": -distances(feat, down.mean),
        }

    return dataclasses.replace(
        local(spec),
        init_client=init_client,
        init_server=init_server,
        receive=lambda params, down: {**params, "protos": down.mean},
        loss=loss,
        upload=upload,
        update=update,
        predict=predict,
        setup=AnchorMessage(anchor_CD),
        title="FedHP",
        nominal=None,
    )
