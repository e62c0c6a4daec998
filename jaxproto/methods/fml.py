"""FML: a private network and a shared one that learn from each other.

Shen, Zhang, Jia, Zhang, Huang, Zhou, Kuang, Wu, Wu: Federated Mutual Learning, 2020,
https://arxiv.org/abs/2006.16765. With p the softmax of the client's private
network and q that of its copy of the shared (auxiliary, "meme") network, on each batch

    L_own = alpha CE(p, y) + (1 - alpha) KL(q | p)
    L_aux = beta CE(q, y) + (1 - beta) KL(p | q)

and the server takes the mean of the auxiliary networks.

Deviations (paper / released code / here; code: HtFLlib, which the papers ran):
- KL: over classes / divided by the number of classes as well / as code.
- targets: detached / both networks get the gradients of both KL / `target`.
- alpha, beta: 0.5 in the papers / 1 by default, which distils nothing / 0.5.
- auxiliary network: - / that of client 0, which the published costs exclude / `aux`,
  from a configuration the 4-layer CNN of hidden width d, which they imply; for
  Flowers-102 and Tiny ImageNet they imply images of 32 x 32 pixels.
- BatchNorm statistics of the auxiliary network: not stated / every round those of the
  first / stay with the client (with the 4-layer CNN there are none).
- gradients: - / clipped to norm 10 per network / as code.
- mean: weighted by examples / plain / plain.
- prediction: private network / the same / that (`head`), and the client's auxiliary
  network after training (`aux`).

S is the paper of `cps_ppa_cpkd.py`.
"""

from collections.abc import Callable

import jax
import optax

from jaxproto.core.hyperparameters import Positive, Share
from jaxproto.core.method import Method, own_network
from jaxproto.core.types import Array, LossAux, Net, Spec, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import weighted_average_update
from jaxproto.prototypes import kernels, losses

detached = jax.lax.stop_gradient  # target: of the other network, a constant


def attached(x: Tree) -> Tree:
    """Returns the target unchanged, so that its network gets gradients, too."""
    return x


def clip_each(limit: float | Array) -> Callable[[Tree], Tree]:
    """Clips gradients to a global norm, one network at a time."""
    clip = optax.clip_by_global_norm(limit)
    return lambda grads: {k: clip.update(v, clip.init(v))[0] for k, v in grads.items()}


def init_both(aux: Net, net: Net, key: Array):
    """Initialises the private and the auxiliary network."""
    params, norm, memory = own_network(net, key)
    aux_params, aux_norm = aux.init(jax.random.fold_in(key, 1))
    return {**params, "aux": aux_params}, {**norm, "aux": aux_norm}, memory


def fml(
    spec: Spec,
    *,
    aux: Net,
    alpha: Share = 0.5,
    beta: Share = 0.5,
    clip: Positive = 10.0,
    target: Callable[[Tree], Tree] = detached,
) -> Method:
    """FML; `alpha=1, beta=1` trains both networks alone.

    Args:
      aux: the auxiliary network.
      alpha: weight of the cross-entropy of a client's own network (S Appendix: 0.5).
      beta: weight of the auxiliary network's cross-entropy (S Appendix: 0.5).
      clip: largest norm of each network's gradient (code: 10).
      target: gradients through the target of a distillation term: `detached` (paper),
        which stops them, or `attached` (code).
    """

    def loss(net, params, norm, batch, down, client):
        own, own_ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        other, aux_ce = losses.output_and_ce(aux, params["aux"], norm["aux"], batch)
        p_BC, q_BC, mask_B = own.logits, other.logits, batch.mask
        own_kl = losses.kl_mean(target(q_BC), p_BC, mask_B)
        aux_kl = losses.kl_mean(target(p_BC), q_BC, mask_B)
        own_loss = alpha * own_ce + (1 - alpha) * own_kl
        aux_loss = beta * aux_ce + (1 - beta) * aux_kl
        return own_loss + aux_loss, LossAux({"net": own.norm, "aux": other.norm})

    def upload(net, before, after, data, down, sums):
        return after.params["aux"], after.memory

    def predict(net, client, x, down):
        params, norm = client.params, client.norm
        own = net.apply(params["net"], norm["net"], x, False)
        other = aux.apply(params["aux"], norm["aux"], x, False)
        return {"head": own.logits, "aux": other.logits}

    return Method(
        init_client=lambda net, key: init_both(aux, net, key),
        init_server=lambda net, key: aux.init(key)[0],
        receive=lambda params, down: {**params, "aux": down},
        loss=loss,
        transform_grads=clip_each(clip),
        upload=upload,
        update=weighted_average_update(lambda up: up, kernels.is_present),
        predict=predict,
        title="FML",
        nominal=nominal.networks("aux"),
    )
