"""FedKD: a private mentor and a shared mentee that travels as singular vectors.

Wu, Wu, Lyu, Huang, Xie: Communication-efficient federated learning via knowledge
distillation, Nature Communications 13, 2032 (2022), https://arxiv.org/abs/2108.13323.
With p, CE_l, f_l the softmax, cross-entropy and features of the mentor, q,
CE_g, f_g those of the client's copy of the mentee, W a matrix of the client:

    L_l = CE_l + (KL(q | p) + MSE(f_l, W f_g)) / (CE_l + CE_g)
    L_g = CE_g + (KL(p | q) + MSE(f_l, W f_g)) / (CE_l + CE_g)
    T   = T_start + (1 + r) / R * (T_end - T_start)      in round r of R, from 0

For each matrix of the mentee, both directions send the fewest singular values, k, whose
squares sum to more than the share T (energy). The server averages what arrives.

Deviations (paper / released code / here; code: HtFLlib, which the papers ran):
- what is sent: gradients / parameters / parameters.
- KL: over classes / divided by the number of classes as well / as code.
- targets and denominators: not stated / all networks get the gradients of both losses,
  through the denominators too / `target`: by default each loss is of its own
  network, all of the other's a constant in it, and W is of L_g.
- denominator of a client whose two losses are 0: - / 0, which ends in nan / 1e-12.
- too few singular values: - / the tensor is zeroed if only all of them reach the energy
  / k is then all of them.
- more numbers than the matrix has: - / sent all the same / the matrix itself is sent.
- form: U, S, V / the same / U sqrt(S), V sqrt(S): k (m + n) numbers of m n.
- convolutions: - / every height x width slice, one k for all / as code.
- auxiliary network, its statistics, clipping, prediction: as in `fml.py`.
- energy: T in round r / T_start in the first round, (r / R) later / as the formula.
- first mentee: not stated / not compressed / compressed as every later one.
- the round number goes down with the mentee: not stated / the energy does / it.
- cost: r times the dense one, r = 0.8932 in every table / - / what is sent; that figure
  is `nominal.factorized`.

S is the paper of `cps_ppa_cpkd.py`.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.hyperparameters import Positive, PositiveShare
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Array, LossAux, Net, Spec, Top, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import weighted_mean
from jaxproto.methods.fml import detached, fml, init_both
from jaxproto.prototypes import kernels, losses

SMALLEST = 1e-12  # divisor


class FedKDState(NamedTuple):
    """State of the server, which broadcasts every matrix as `FactorizedMatrix`."""

    aux: Tree
    round: Array  # [] int32, from 0


class FactorizedMatrix(NamedTuple):
    """Matrix or kernel as factors or as it is; one of the two is sent."""

    whole: Top  # [..., last axis]
    factors: Top  # [L, F] singular vectors, times the root of their value


def is_matrix(x: Array) -> bool:
    """Returns whether a parameter is a matrix or a kernel [height, width, in, out]."""
    return x.ndim in (2, 4)


def matrices(x: Array) -> Array:
    """Converts a parameter to matrices [G, M, N], M >= N; a kernel has several."""
    w = x[None] if x.ndim == 2 else x.reshape(*x.shape[:2], -1).transpose(2, 0, 1)
    return w if w.shape[1] >= w.shape[2] else w.swapaxes(1, 2)


def from_matrices(w_GMN: Array, shape: tuple[int, ...]) -> Array:
    """Converts `matrices` back to a parameter."""
    w = w_GMN if shape[0] >= shape[1] else w_GMN.swapaxes(1, 2)
    return w[0] if len(shape) == 2 else w.transpose(1, 2, 0).reshape(shape)


def eigenvectors(a_GNN: Array) -> Array:
    """Returns the eigenvectors of symmetric matrices, as columns.

    On CPUs one matrix at a time: XLA's kernel waits for threads of the pool in which it
    runs if it has several, so two programs side by side can wait for ever.
    """

    def batched(a):
        return jnp.linalg.eigh(a)[1]

    one_by_one = partial(lax.map, jax.custom_batching.sequential_vmap(batched))
    return lax.platform_dependent(a_GNN, cpu=one_by_one, default=batched)


@kernels.float32_matmuls
def factors(w_GMN: Array) -> tuple[Array, Array, Array]:
    """Computes U sqrt(S) [L, G, M], V sqrt(S) [L, G, N], sums of S^2 over G [L].

    By the eigenvectors V of W^T W, ten times faster than a singular value
    decomposition of a 1600 x 500 matrix on a CPU; W V = U S.
    """
    v_GNL = eigenvectors(w_GMN.swapaxes(1, 2) @ w_GMN)[..., ::-1]
    us_GML = w_GMN @ v_GNL
    s_G1L = jnp.linalg.norm(us_GML, axis=1, keepdims=True)
    root = jnp.sqrt(jnp.maximum(s_G1L, SMALLEST))
    left, right = us_GML / root, v_GNL * root
    return left.transpose(2, 0, 1), right.transpose(2, 0, 1), jnp.sum(s_G1L**2, (0, 1))


def rank(square_L: Array, energy: float | Array) -> Array:
    """Returns the smallest k whose first k squares exceed the energy."""
    sum_L = jnp.cumsum(square_L)
    reached = jnp.sum(sum_L[:-1] > energy * jnp.max(sum_L))
    return len(square_L) - reached


def compress(params: Tree, energy: float | Array) -> Tree:
    """Compresses each matrix to the form with fewer numbers."""

    def one(x):
        if not is_matrix(x):
            return x
        left, right, square_L = factors(matrices(x))
        k, length = rank(square_L, energy), len(square_L)
        row_LF = jnp.concatenate([a.reshape(length, -1) for a in (left, right)], 1)
        smaller = k * row_LF.shape[1] < x.size  # than the matrix itself
        row = x.reshape(-1, x.shape[-1])
        return FactorizedMatrix(
            mask_rows(row, jnp.full(len(row), ~smaller)),
            mask_rows(row_LF, smaller & (jnp.arange(length) < k)),
        )

    return jax.tree.map(one, params)


def mask_rows(value: Array, sent: Array) -> Top:
    """Selects the rows that are sent; others are zero."""
    return Top(jnp.where(sent[:, None], value, 0.0), sent)


@kernels.float32_matmuls
def decompress(sent: Tree, like: Tree) -> Tree:
    """Restores parameters from a message.

    Args:
      sent: from `compress`; rows that are not sent are zero.
      like: parameters or their shapes.
    """

    def one(x, part):
        if not is_matrix(x):
            return part
        groups, tall, wide = jax.eval_shape(matrices, x).shape
        row_LF = part.factors.value
        left, right = jnp.split(row_LF, [groups * tall], 1)
        left = left.reshape(-1, groups, tall)
        right = right.reshape(-1, groups, wide)
        w_GMN = jnp.einsum("lgm,lgn->gmn", left, right)
        return part.whole.value.reshape(x.shape) + from_matrices(w_GMN, x.shape)

    return jax.tree.map(one, like, sent)


def fedkd(
    spec: Spec,
    *,
    aux: Net,
    energy_start: PositiveShare = 0.95,
    energy_end: PositiveShare = 0.98,
    rounds: int | None = None,
    clip: Positive = 10.0,
    target: Callable[[Tree], Tree] = detached,
) -> Method:
    """FedKD.

    Args:
      aux: the auxiliary network, here called mentee.
      energy_start, energy_end: T in the first and in the last round, the share of the
        singular values' energy that is sent (S Appendix: 0.95 and 0.98); 1 sends all.
      rounds: R; None leaves T where it starts. From a configuration it is filled in.
      clip: largest norm of the gradient of each network and of W (code: 10).
      target: gradients through the target of a loss, `detached` or `attached` (code).
    """
    shapes = jax.eval_shape(aux.init, jax.eval_shape(make_key, 0))[0]

    def energy(r):
        share = jnp.minimum((1 + r) / rounds, 1.0) if rounds else 0.0
        return energy_start + share * (energy_end - energy_start)

    def init_client(net, key):
        params, norm, memory = init_both(aux, net, key)
        size = 2 * (spec.feat_dim,)
        draw = jax.random.uniform(jax.random.fold_in(key, 2), size, minval=-1)
        return {**params, "project": draw / math.sqrt(size[0])}, norm, memory

    def broadcast(server):  # with the energy of the round that made it
        sent = compress(server.aux, energy(server.round - 1))
        return FedKDState(sent, server.round)

    def loss(net, params, norm, batch, down, client):
        own, ce_l = losses.output_and_ce(net, params["net"], norm["net"], batch)
        other, ce_g = losses.output_and_ce(aux, params["aux"], norm["aux"], batch)
        projected_BD = other.feat @ params["project"]
        total_l, total_g = ce_l + target(ce_g), target(ce_l) + ce_g
        term_l = losses.kl_mean(target(other.logits), own.logits, batch.mask)
        term_l += losses.mse(own.feat, target(projected_BD), batch.mask)
        term_g = losses.kl_mean(target(own.logits), other.logits, batch.mask)
        term_g += losses.mse(target(own.feat), projected_BD, batch.mask)
        value = ce_l + ce_g
        value += term_l / jnp.maximum(total_l, SMALLEST)
        value += term_g / jnp.maximum(total_g, SMALLEST)
        return value, LossAux({"net": own.norm, "aux": other.norm})

    def upload(net, before, after, data, down, sums):
        return compress(after.params["aux"], energy(down.round)), after.memory

    def update(net, server, up, key):
        params = jax.vmap(lambda sent: decompress(sent, shapes))(up)
        mean = weighted_mean(params, kernels.are_present(up), server.aux)
        return FedKDState(mean, server.round + 1)

    return dataclasses.replace(
        fml(spec, aux=aux, clip=clip),
        init_client=init_client,
        init_server=lambda net, key: FedKDState(aux.init(key)[0], jnp.int32(0)),
        broadcast=broadcast,
        receive=lambda params, down: {**params, "aux": decompress(down.aux, shapes)},
        loss=loss,
        upload=upload,
        update=update,
        title="FedKD",
        nominal=nominal.factorized("aux"),
    )
