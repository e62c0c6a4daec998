"""FedProto, and the base of methods built on it.

Tan et al.: FedProto: Federated Prototype Learning across Heterogeneous Clients,
AAAI 2022, https://arxiv.org/abs/2105.00243. Equation numbers are those of ProtoNorm
(N: Lee, Shin, Choi: Heterogeneous Federated Learning with Prototype Alignment and
Upscaling), whose presets are the defaults.

    c_ij = mean of f_i(x) over the examples of class j          (N Eq. 2)
    g_j  = mean of c_ij over the clients that hold class j      (N Eq. 7)
    loss = CE + lam * sum_j |c_ij - g_j|_2                      (N Eq. 4, 5)
    y    = argmin_j |f_i(x) - c_ij|                             (N Eq. 6)

Deviations (paper / released code / here):
- aggregation: weights n_ij / (|N_j| sum n_ij), which shrink every prototype (N Eq. 3)
  / plain mean / plain mean; `aggregate=kernels.mean_as_printed` has these weights,
  `kernels.mean_over_examples` weights n_ij that sum to 1.
- pull: distance of class means, lam 1 / squared error, the mean over examples and
  dimensions, lam 10 / `reg`, default as the code: the papers' tables were made with it,
  and under the distance, whose gradient has the same length however near a prototype
  is, features of different classes fall together. The paper's is the variant `paper`.
- local prototypes: after training / train pass (FedProto, TinyProto) or before
  training, a side effect (FedTGP, ProtoNorm) / `collect`, default after training,
  over all examples (released code: whole batches only).
- prediction: own local prototypes / global ones of all classes / every rule at once.
- first round: not stated / no pull / no pull.
- initial networks: independent / independent in the code of N and TinyProto (T), equal
  for clients of one architecture in HtFLlib, which moves FedProto by 5 points in the
  first rounds on CIFAR-10 / `model.init` of a configuration, default independent.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax

from jaxproto.core.batches import sum_over_batches
from jaxproto.core.hyperparameters import NonNegative, Positive, argument_group
from jaxproto.core.method import Method, own_features, own_network
from jaxproto.core.types import LossAux, Protos, Spec, Tree
from jaxproto.methods import nominal
from jaxproto.prototypes import kernels, losses
from jaxproto.prototypes.transforms import (
    IDENTITY,
    Transform,
    apply,
    chain,
    hide_count,
    scale,
    show_count,
)

if TYPE_CHECKING:
    from jaxproto.wrappers.privacy import Privacy
    from jaxproto.wrappers.privacy.release import Contribution


class PrototypeSource(NamedTuple):
    """Source of local prototypes (docs/decisions.md#collect)."""

    each_step: Callable[..., Tree]  # feat_BD, batch, num_classes -> sums
    at_end: Callable[..., Protos]  # net, before, after, data, sums, num_classes -> c_ij


def class_means(net, client, data, num_classes, features=own_features) -> Protos:
    """Returns the mean features of each class over all examples of a client."""

    def f(b):
        feat = features(net, client, b.x)
        return kernels.class_sum(feat, b.y, b.mask, num_classes)

    return kernels.mean_of(sum_over_batches(f, data))


def no_sums(feat_BD, batch, num_classes):
    """Keeps nothing during training."""
    return ()


after_training = PrototypeSource(
    no_sums, lambda net, before, after, data, sums, c: class_means(net, after, data, c)
)
before_training = PrototypeSource(
    no_sums, lambda net, before, after, data, sums, c: class_means(net, before, data, c)
)
train_pass = PrototypeSource(
    lambda feat, b, c: kernels.class_sum(jax.lax.stop_gradient(feat), b.y, b.mask, c),
    lambda net, before, after, data, sums, c: kernels.mean_of(sums),
)


class FedProtoState(NamedTuple):
    """Global prototypes, and the state of the server-side transform."""

    protos: Protos
    transform: Tree


def prototype_scores(feat_BD, client, down: Protos) -> dict:
    """Returns the scores [B, C] of the prototype rules (docs/decisions.md#rules)."""
    own = Protos(down.mean, down.count * (client.count > 0))
    return {
        "local": kernels.nearest(feat_BD, client.memory),
        "global": kernels.nearest(feat_BD, down),
        "global_own": kernels.nearest(feat_BD, own),
    }


def no_class_weights(client):
    """Returns None, which weighs all classes equally in the pull."""


@argument_group
class Pull(NamedTuple):
    """Pull of features towards global prototypes, and the source of local ones."""

    lam: NonNegative = losses.LAM  # weight (N 5.1: 1; code: 10)
    reg: Callable = losses.PULL  # one of `losses`
    collect: PrototypeSource = after_training  # source of local prototypes
    class_weight: Callable = no_class_weights  # client -> weights [C]; None: all 1
    feature_map: Callable = lambda feat_BD, y_B: feat_BD  # -> what is compared


def fedproto(
    spec: Spec,
    *,
    pull: Pull = Pull(),
    aggregate: Callable = kernels.mean_over_clients,
    upscale: Positive = 1.0,
    on_upload: Transform = IDENTITY,
    on_server: Transform = IDENTITY,
    on_client: Transform = IDENTITY,
    on_arrival: Callable = lambda up: up,
    privacy: "Privacy | None" = None,
    contribution: "Contribution | None" = None,
) -> Method:
    """FedProto.

    Args:
      pull: towards global prototypes.
      aggregate: uploads [K, C, D] -> global prototypes. The counts n_ij are sent for
        `kernels.COUNTED` only; otherwise the server learns which classes are there.
      upscale: factor of global prototypes on the client, in the pull and in the rules
        (gamma of N Eq. 15 and Table 5).
      on_upload, on_server, on_client: prototype transforms. On upload, counts are
        those of the client's training data.
      on_arrival: uploads [K, C, ...] -> what is aggregated.
      privacy: clipping and noise of what clients send; the mean is then over all that
        was sent, weighted by how much of it was not clipped.
      contribution: of an example to its class's row, for `privacy`; its features by
        default.
    """
    weighted = aggregate in kernels.COUNTED
    on_upload = chain(on_upload, show_count() if weighted else hide_count())
    on_client = chain(on_client, scale(upscale))

    def init_client(net, key):
        params, norm, _ = own_network(net, key)
        return params, norm, kernels.no_prototypes(*spec)

    def init_server(net, key):
        whole = kernels.no_prototypes(*spec)  # as the server sees them
        sent = apply(on_upload, whole).replace(disclosed=False)
        return FedProtoState(sent, on_server.init(whole))

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        target, feat_BD = apply(on_client, down), pull.feature_map(out.feat, batch.y)
        weight_C = pull.class_weight(client)
        term = pull.reg(target, feat_BD, batch.y, batch.mask, weight_C)
        sums = pull.collect.each_step(out.feat, batch, spec.num_classes)
        return ce + pull.lam * term, LossAux({"net": out.norm}, sums)  # N Eq. 4

    def upload(net, before, after, data, down, sums):
        classes = spec.num_classes
        own = pull.collect.at_end(net, before, after, data, sums, classes)  # N Eq. 2
        held_C = after.count * (own.count > 0)
        return apply(on_upload, own.replace(count=held_C)), own

    def update(net, server, up, key):
        protos = aggregate(on_arrival(up))
        return FedProtoState(*on_server.update(protos, server.transform))

    def predict(net, client, x, down):
        out = net.apply(client.params["net"], client.norm["net"], x, False)
        return {
            "head": out.logits,
            **prototype_scores(out.feat, client, apply(on_client, down)),
        }

    method = Method(
        init_client=init_client,
        init_server=init_server,
        loss=loss,
        upload=upload,
        update=update,
        broadcast=lambda server: server.protos,
        predict=predict,
        client_view=lambda down: apply(on_client, down),
        title="FedProto",
        nominal=nominal.class_rows(spec, spec.feat_dim),
    )
    if privacy is None:
        return method
    from jaxproto.wrappers.privacy import release  # a method without it loads none

    rows = contribution or release.MEANS
    return release.private_prototypes(method, privacy, rows, spec.num_classes)
