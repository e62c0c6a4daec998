"""FedNova: FedAvg of updates that are normalised by the local work behind them.

Wang, Liu, Liang, Joshi, Poor: Tackling the Objective Inconsistency Problem in
Heterogeneous Federated Optimization, NeurIPS 2020, https://arxiv.org/abs/2007.07481.

    Delta_i = (w - w_i) / a_i         a_i = |a_i|_1, what every gradient adds up to
    w      <- w - tau_eff sum_i (n_i / n) Delta_i,    tau_eff = sum_i (n_i / n) a_i

    plain SGD:           a = tau                                over tau local steps
    with momentum rho:   c <- rho c + 1, a <- a + c             per step
    with proximal mu:    a <- (1 - lr mu) a + 1                 per step
    with both:           c <- rho c + 1 - lr mu a, a <- a + c   per step

The last line holds for all: lr a is how far gradients of 1 move SGD on FedProx's loss.

Deviations (paper / released code, https://github.com/JYWa/FedNova / here), besides
those of FedAvg:
- momentum and proximal together: not stated / the term passes through momentum, as
  here, but a <- (1 - lr mu)(a + c) + 1 / what the steps add up to, as above. Where
  lr mu is so large that gradients come to count with both signs, |a_i|_1 is more.
- tau_eff with a proximal term: - / sum_i (n_i / n) tau_i, with momentum 0.9 about a
  tenth of the clients' mean a_i, however small mu is / of a_i, as without the term.
- BatchNorm statistics: not stated / local; VHL's port normalises them, and integer
  counters, as if they were parameters / local, or their mean (`statistics`).
- server momentum: none / `gmf`, 0, of the step over the clients' learning rate /
  `server_momentum`, 0, of the averaged step: the same at a constant rate.
- a client without a step (`local.short=skip`): 0 divided by 0 / - / weighs nothing.
- optimisers beyond SGD: a_i of Adam and others not stated / SGD only / refused.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto.core.hyperparameters import Momentum, NonNegative, is_zero
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, Spec, Tree
from jaxproto.errors import UserError
from jaxproto.methods.fedavg import (
    Statistical,
    finish_weighted_mean,
    local_statistics,
    weighted_summand,
)
from jaxproto.methods.fedprox import fedprox


class LocalDescent(NamedTuple):
    """Local optimiser of the clients, as of `optimizer` in a configuration."""

    learning_rate: float | Array
    momentum: float | Array


class FedNovaState(NamedTuple):
    """State of the server, which broadcasts the parameters."""

    params: Tree
    step: Tree  # the last one, for server momentum


class FedNovaUpload(NamedTuple):
    """Upload of a client."""

    change: Tree  # Delta_i
    length: Array  # [] a_i
    size: Array  # [] n_i


def local_descent(
    optimizer, state: str, method: str, *, one_rate: bool
) -> LocalDescent:
    """Returns the `LocalDescent` of a configured optimiser.

    Args:
      optimizer: with the fields of a configuration's `optimizer`.
      state: `local.optimizer_state`.
      method: name for messages.
      one_rate: whether the learning rate must be equal in all rounds.

    Raises:
      UserError: the optimiser's gradients do not add up as the formulas say.
    """
    if optimizer.name != "sgd":
        raise UserError(
            f"{method} divides an update by what SGD makes of its gradients; "
            f"optimizer.name is {optimizer.name!r}: set it to sgd."
        )
    if not is_zero(optimizer.momentum) and state != "restart":
        raise UserError(
            f"{method} with optimizer.momentum={optimizer.momentum} counts from a "
            f"momentum of 0, but local.optimizer_state is {state!r}: set it to restart."
        )
    if one_rate and optimizer.schedule != "constant":
        raise UserError(
            f"{method} divides an update by one learning rate, but optimizer.schedule "
            f"is {optimizer.schedule!r}: set it to constant."
        )
    return LocalDescent(optimizer.learning_rate, optimizer.momentum)


PLAIN_SGD = LocalDescent(learning_rate=0.01, momentum=0.0)


def normalising_factor(
    steps: Array, descent: LocalDescent, mu: float | Array = 0.0
) -> Array:
    """Returns a_i of `steps` local steps (Section 4, and the module docstring)."""
    rate, rho = descent

    def step(_, now):
        c, a = now
        c = rho * c + 1.0 - rate * mu * a
        return c, a + c

    zero = jnp.zeros(())
    return lax.fori_loop(0, steps, step, (zero, zero))[1]


def fednova(
    spec: Spec,
    *,
    mu: NonNegative = 0.0,
    server_momentum: Momentum = 0.0,
    descent: LocalDescent = PLAIN_SGD,
    statistics: Statistical = local_statistics,
) -> Method:
    """FedNova; where all clients take equally many steps it is FedAvg (or FedProx).

    Args:
      mu: weight of FedProx's term in the local loss. The released code then has another
        step of the server (module docstring).
      server_momentum: momentum of the server's update, gmf of the released code.
      descent: learning rate and momentum of the clients' SGD; from a configuration it
        is that of `optimizer`.
    """
    base = fedprox(spec, mu=mu)

    def init_server(net, key):
        params = base.init_server(net, key)
        return FedNovaState(params, optax.tree.zeros_like(params))

    def upload(net, before, after, data, down, sums):
        a = normalising_factor(after.steps, descent, mu)
        divisor = jnp.where(a > 0, a, 1.0)
        change = jax.tree.map(lambda w, w_i: (w - w_i) / divisor, down, after.params)
        return FedNovaUpload(change, a, data.shard.size * (a > 0)), after.memory

    def summand(up):
        return weighted_summand((up.change, up.length), up.size)

    def finish(net, server, total, key):
        zeros = jax.tree.map(jnp.zeros_like, server.params), jnp.zeros(())
        change, tau_eff = finish_weighted_mean(total, zeros)
        anybody = total[1] > 0

        def next_step(delta, old):
            return jnp.where(anybody, server_momentum * old + tau_eff * delta, old)

        step = jax.tree.map(next_step, change, server.step)
        params = jax.tree.map(lambda w, s: w - anybody * s, server.params, step)
        return FedNovaState(params, step)

    method = dataclasses.replace(
        base,
        init_server=init_server,
        broadcast=lambda server: server.params,
        upload=upload,
        title="FedNova",
        update=Aggregation(finish, summand),
    )
    return statistics(method)
