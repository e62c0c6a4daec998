"""RefProtoFL: a shared adapter on private backbones, aligned by public examples.

Wu, Li, Fan, Zhu, Chen, Feng: RefProtoFL: Communication-Efficient Federated Learning
via External-Referenced Prototype Alignment. Numbers are those of its
equations and algorithms.

    z   = F(x; backbone_k, adapter f)                                    (Eq. 9)
    p   = mean of z over the public examples of a class, or else over the
          client's own, before training, with the adapter as broadcast  (Eq. 10, 11)
    a_c = mean of p over participants, or weighted by |D_kc|         (Eq. 14 to 16)
    L   = CE + lam * |z - a_y|^2                                       (Eq. 17 to 19)
    adapter: only the entries that moved most are sent, as values; each is the mean
          over those who sent it, weighted by |D_k|, or stays           (Eq. 3 to 7)

ERPA (external-referenced prototype alignment) is the pull and the exchange before
training, APUD (adaptive "probabilistic" update dropping) the choice of entries.

Deviations (paper / here; no code is released):
- adapter: not described / Linear(D, m) and ReLU, then Linear(m, C), m 128, on
  the features of any network; the network's own head rests.
- losses: sums over all examples, which makes step size and, with a mean cross-entropy,
  lam depend on |D_k| / means; `pull=sq_l2_sum` sums over the batch.
- pull and lam: the squared distance, lam not stated / the mean over its m dimensions
  and 10, as all methods with a pull here; with m = 128 that is the squared distance
  with lam 0.078. `pull=sq_l2_mean, lam=0.1` is the variant `paper`.
- budget, public data: not stated / a tenth, `data.public_*`. Without public data
  every class is one that they do not cover.
- update dropping: "probabilistic" in its name, top-K in Algorithm 1 / top-K.
- backbone: "frozen" in Section 5.2.2, trained in Algorithm 5 / `backbone`, default
  TRAINED. FROZEN leaves parameters and BatchNorm statistics as they begin; with
  `model.init=same` it is common to all clients of an architecture.
- public examples: provided in every round (Algorithm 6, line 3) / sent once, before the
  first round.
- prediction: not stated / own adapter (`head`), broadcast one (`received`) and nearest
  anchor (`global`), all on the private backbone.
- first message of a round: the adapter / the last anchors as well, which no client
  uses; they are not counted.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxproto.core.hyperparameters import (
    NonNegative,
    PositiveShare,
    UpToMillion,
    check_argument,
)
from jaxproto.core.method import Method, no_pre_upload, own_features, own_network
from jaxproto.core.types import Array, Data, LossAux, Protos, Shard, Spec, Top, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedproto import class_means
from jaxproto.prototypes import kernels, losses
from jaxproto.round.participation import top_k_mask


class RefProtoFLState(NamedTuple):
    """State of the server, and its broadcast."""

    adapter: Tree
    anchors: Protos  # [C, m]


class AnchorUpload(NamedTuple):
    """Message of a client before it trains: embedded class means [C, m]."""

    public: Protos  # of the classes that public examples cover
    own: Protos  # of the others that the client holds, with |D_kc|


class RefProtoFLUpload(NamedTuple):
    """Upload of a client after training."""

    adapter: Top  # [P]
    size: Array  # [] |D_k|


def linear(key: Array, inputs: int, outputs: int) -> dict[str, Array]:
    """Draws PyTorch's default kernel and bias: U(-1, 1) / sqrt(inputs)."""
    draw = jax.random.uniform(key, (inputs + 1, outputs), minval=-1)
    draw /= math.sqrt(inputs)
    return {"kernel": draw[:-1], "bias": draw[-1]}


def embed(adapter: Tree, feat_BD: Array) -> Array:
    """Embeds features to z [B, m] (Eq. 9)."""
    layer = adapter["map"]
    return jax.nn.relu(feat_BD @ layer["kernel"] + layer["bias"])


def classify(adapter: Tree, z_Bm: Array) -> Array:
    """Returns logits [B, C] of embeddings."""
    return z_Bm @ adapter["head"]["kernel"] + adapter["head"]["bias"]


def features(net, client, x) -> Array:
    """Returns z [B, m] of the client's own network and adapter."""
    return embed(client.params["adapter"], own_features(net, client, x))


def sq_l2_sum(protos, feat_BD, y_B, weight_B, emphasis_C=None) -> Array:
    """Sums the squared distance over the batch, Eq. 17 as printed; see `losses`."""
    mean = losses.sq_l2_mean(protos, feat_BD, y_B, weight_B, emphasis_C)
    return mean * jnp.sum(weight_B)


class Anchors(NamedTuple):
    """Exchange of anchors before training, and their rule; or neither."""

    pre_upload: Callable
    pre_aggregate: Callable
    scores: Callable  # z_Bm, anchors -> {rule: scores}


def anchor_class_means(net, client, data, down) -> AnchorUpload:
    """Computes the client's part of ERPA before training (Algorithm 3)."""
    classes, row_P = len(down.anchors.count), data.examples.public
    public = jax.tree.map(jnp.zeros_like, down.anchors)
    if row_P is not None:
        public_data = Data(data.examples, Shard(row_P, jnp.int32(len(row_P))))
        public = class_means(net, client, public_data, classes, features)  # Eq. 10
    own = class_means(net, client, data, classes, features)  # Eq. 11
    own_C = jnp.where(public.count > 0, 0.0, own.count)  # Eq. 12
    public = public.replace(count=jnp.sign(public.count))
    return AnchorUpload(public, Protos(own.mean, own_C, disclosed=True))


def aggregate_anchors(
    server: RefProtoFLState, ups: AnchorUpload, key
) -> RefProtoFLState:
    """Computes the server's part of ERPA (Algorithm 4)."""
    public = kernels.mean_over_clients(ups.public)  # Eq. 14
    own = kernels.mean_over_examples(ups.own)  # Eq. 15
    mean_Cm = jnp.where(public.count[:, None] > 0, public.mean, own.mean)  # Eq. 16
    count_C = jnp.sign(public.count + own.count)
    return server._replace(anchors=Protos(mean_Cm, count_C))


EXTERNAL = Anchors(
    anchor_class_means,
    aggregate_anchors,
    lambda z, a: {"global": kernels.nearest(z, a)},
)
NONE = Anchors(no_pre_upload, lambda server, ups, key: server, lambda z, a: {})


class Backbone(NamedTuple):
    """Training of a client's own network."""

    output: Callable  # net, params, norm, batch -> output of the network, in training
    updates: Callable  # updates of the optimiser -> those that are applied


TRAINED = Backbone(
    lambda net, params, norm, b: net.apply(
        params["net"], norm["net"], b.x, True, b.key
    ),
    lambda updates: updates,
)
FROZEN = Backbone(
    lambda net, params, norm, b: net.apply(
        *jax.lax.stop_gradient((params["net"], norm["net"])), b.x, False
    ),
    lambda updates: {**updates, "net": jax.tree.map(jnp.zeros_like, updates["net"])},
)


def budget_size(budget: float | Array, size: int) -> Array:
    """Returns the number of entries that a budget allows, at least 1."""
    return jnp.maximum(jnp.round(budget * size), 1).astype(jnp.int32)


def masked_mean(up: RefProtoFLUpload, old_P: Array) -> Array:
    """Averages each entry over the clients that sent it, by |D_k| (Algorithm 2)."""
    weight_KP = up.adapter.sent * up.size[:, None].astype(jnp.float32)
    total_P = jnp.sum(weight_KP, 0)
    sum_P = jnp.sum(weight_KP * up.adapter.value, 0)
    return jnp.where(total_P > 0, sum_P / jnp.maximum(total_P, 1.0), old_P)  # Eq. 7


def refprotofl(
    spec: Spec,
    *,
    lam: NonNegative = losses.LAM,
    budget: PositiveShare = 0.1,
    adapter_dim: UpToMillion = 128,
    pull: Callable = losses.PULL,
    anchors: Anchors = EXTERNAL,
    backbone: Backbone = TRAINED,
) -> Method:
    """RefProtoFL.

    Args:
      spec: number of classes and feature dimension of the backbones.
      lam: weight of the pull towards anchors (not stated).
      budget: share of the adapter's entries that a client sends, at least one; 1 is
        without APUD (not stated).
      adapter_dim: m, width of the adapter and of its prototypes (not stated).
      pull: distance between z and the anchors, one of `losses` or `sq_l2_sum`.
      anchors: EXTERNAL prototypes of public examples, or NONE for one exchange and no
        pull (without ERPA).
      backbone: whether a client's own network is TRAINED (Algorithm 5), or FROZEN as it
        begins (Section 5.2.2).

    Raises:
      UserError: `adapter_dim` or `budget` is out of its range.
    """
    check_argument("adapter_dim", adapter_dim, UpToMillion)
    check_argument("budget", budget, PositiveShare)

    def draw(key):
        first, second = jax.random.split(key)
        return {
            "map": linear(first, spec.feat_dim, adapter_dim),
            "head": linear(second, adapter_dim, spec.num_classes),
        }

    def init_client(net, key):
        params, norm, memory = own_network(net, key)
        return {**params, "adapter": draw(jax.random.fold_in(key, 1))}, norm, memory

    def init_server(net, key):
        empty = kernels.no_prototypes(spec.num_classes, adapter_dim)
        return RefProtoFLState(draw(key), empty)

    def loss(net, params, norm, batch, down, client):
        out = backbone.output(net, params, norm, batch)
        z_Bm = embed(params["adapter"], out.feat)
        logits_BC = classify(params["adapter"], z_Bm)
        ce = losses.cross_entropy(logits_BC, batch.y, batch.mask)  # Eq. 18
        term = pull(down.anchors, z_Bm, batch.y, batch.mask)  # Eq. 17
        return ce + lam * term, LossAux({"net": out.norm})  # Eq. 19

    def upload(net, before, after, data, down, sums):
        value_P = ravel_pytree(after.params["adapter"])[0]
        old_P = ravel_pytree(down.adapter)[0]
        count = budget_size(budget, len(value_P))
        sent_P = top_k_mask(jnp.abs(value_P - old_P), count)  # Eq. 3 to 5
        return RefProtoFLUpload(Top(value_P, sent_P), data.shard.size), after.memory

    def update(net, server, up, key):
        old_P, unravel = ravel_pytree(server.adapter)
        return server._replace(adapter=unravel(masked_mean(up, old_P)))

    def predict(net, client, x, down):
        feat = own_features(net, client, x)
        z_Bm = embed(client.params["adapter"], feat)
        return {
            "head": classify(client.params["adapter"], z_Bm),
            "received": classify(down.adapter, embed(down.adapter, feat)),
            **anchors.scores(z_Bm, down.anchors),
        }

    return Method(
        init_client=init_client,
        init_server=init_server,
        receive=lambda params, down: {**params, "adapter": down.adapter},
        pre_upload=anchors.pre_upload,
        pre_aggregate=anchors.pre_aggregate,
        loss=loss,
        transform_updates=backbone.updates,
        upload=upload,
        update=update,
        predict=predict,
        features=features,
        sends_public=anchors is not NONE,
        title="RefProtoFL",
        nominal=nominal.adapters(spec, adapter_dim, budget, anchors is not NONE),
    )
