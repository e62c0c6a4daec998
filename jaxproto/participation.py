"""Samplers of participants: `(key, num_clients, r) -> Participation`.

Randomness is a function of the round's key and the client id, never of position. `r`
counts rounds from 0; only samplers with a schedule use it. Arguments of `SAMPLERS` are
fields `participation` of a configuration with the same names.

Beta, Gamma, Weibull, cyclic, circular and random-count samplers are those of FAST's
released code, https://github.com/RogerRogerUSC/FAST.

Deviations: code: rounds the numbers of clients of Beta, Gamma and Weibull up, those of
  uniform and
    cyclic sampling down. Here: the nearest whole number, at least one.
  code: leaves out the clients that remain after division into groups. Here: groups
    cover all clients.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

from jaxproto.errors import UserError
from jaxproto.hyperparameters import is_concrete
from jaxproto.types import Array


class Participation(NamedTuple):
    """Participants by client id; one whose upload is lost keeps its progress."""

    trains: Array  # [K]
    reports: Array  # [K], a subset of `trains`


Draw = Callable[[Array, int, Array | int], Participation]  # key, num_clients, r


@dataclasses.dataclass(frozen=True)
class BoundedSampler:
    """Sampler with a bound on its clients, by which arrays of a round are sized."""

    draw: Draw
    most: Callable[[int], int]  # num_clients -> bound; floats must be known

    def __call__(self, key: Array, num_clients: int, r: Array | int) -> Participation:
        """Draws the participants of round `r`."""
        return self.draw(key, num_clients, r)


Sampler = Draw | BoundedSampler


def max_clients(sampler: Sampler, num_clients: int) -> int:
    """Returns the most clients that a sampler can draw; all without a bound."""
    if not isinstance(sampler, BoundedSampler):
        return num_clients
    return min(num_clients, sampler.most(num_clients))


def row_count(clients: int) -> int:
    """Rounds a number of clients up to rows of a round's arrays.

    Up to an eighth more, so that similar shares have the same compiled programs.
    """
    step = 1 << max(0, (clients - 1).bit_length() - 4)
    return -(-clients // step) * step


def all_report(on_K: Array) -> Participation:
    """Makes the participation in which all that train report."""
    return Participation(on_K, on_K)


def all_clients() -> Sampler:
    """All clients in every round (the four papers)."""

    def sampler(key, num_clients, r):
        del key, r
        return all_report(jnp.ones(num_clients, bool))

    return sampler


def count_of_fraction(fraction: float | Array, num_clients: int) -> Array:
    """Returns the nearest whole number of clients, at least one."""
    return jnp.maximum(jnp.round(jnp.float32(fraction) * num_clients), 1)


def max_of_fraction(fraction: float | Array) -> Callable[[int], int]:
    """Returns the bound of `share` for a known fraction, computed on the host."""

    def clients(num_clients):
        whole = np.round(np.float32(fraction) * np.float32(num_clients))
        return max(int(whole), 1)

    return clients


def top_k_mask(score_K: Array, count: Array) -> Array:
    """Returns whether each score is among the `count` largest; ties by position."""
    whole = jnp.asarray(count, jnp.int32)
    least = jnp.sort(score_K)[len(score_K) - whole]
    above_K, equal_K = score_K > least, score_K == least
    return above_K | equal_K & (jnp.cumsum(equal_K) <= whole - jnp.sum(above_K))


def uniform(fraction: float | Array) -> Sampler:
    """A uniformly drawn share of the clients, at least one."""

    def sampler(key, num_clients, r):
        del r
        score_K = -jax.random.uniform(key, (num_clients,))
        return all_report(top_k_mask(score_K, count_of_fraction(fraction, num_clients)))

    return BoundedSampler(sampler, max_of_fraction(fraction))


def random_count() -> Sampler:
    """Any number of clients from one to all, then which, both uniformly."""

    def sampler(key, num_clients, r):
        del r
        count_key, which_key = jax.random.split(key)
        count = jax.random.randint(count_key, (), 1, num_clients + 1)
        return all_report(
            top_k_mask(jax.random.uniform(which_key, (num_clients,)), count)
        )

    return sampler


def sequential_draw(cdf: Callable[[Array], Array], fraction: float | Array) -> Sampler:
    """Returns a sampler that draws clients successively without replacement.

    Args:
      cdf: of a distribution on [0, 1]; client i has its mass on [i / K, (i + 1) / K).
        Mass beyond 1 is ignored.
      fraction: share of the clients.

    Raises:
      UserError: a share of 1, for which the law means nothing.
    """
    if is_concrete(fraction) and fraction >= 1:
        raise UserError(
            f"participation.fraction is {fraction}: every client would take part, "
            "whatever the law says of their order; set a smaller one (FAST: 0.1)."
        )

    def sampler(key, num_clients, r):
        del r
        edge = jnp.arange(num_clients + 1) / num_clients
        mass_K = jnp.maximum(jnp.diff(cdf(edge)), 1e-30)  # nobody is impossible
        score_K = jnp.log(mass_K) + jax.random.gumbel(key, (num_clients,))
        return all_report(top_k_mask(score_K, count_of_fraction(fraction, num_clients)))

    return BoundedSampler(sampler, max_of_fraction(fraction))


def beta(fraction: float, beta_a: float = 1.0, beta_b: float = 10.0) -> Sampler:
    """Client ids by a Beta distribution: low ids take part most often."""
    return sequential_draw(lambda x: stats.beta.cdf(x, beta_a, beta_b), fraction)


def gamma(
    fraction: float, gamma_shape: float = 10.0, gamma_scale: float = 0.01
) -> Sampler:
    """Client ids by a Gamma distribution, by default with mean 0.1 K."""
    cdf = stats.gamma.cdf
    return sequential_draw(lambda x: cdf(x, gamma_shape, scale=gamma_scale), fraction)


def weibull(
    fraction: float, weibull_shape: float = 10.0, weibull_scale: float = 1 / 1.2
) -> Sampler:
    """Client ids by a Weibull distribution, by default with mode about 0.82 K."""

    def cdf(x):
        return -jnp.expm1(-((x / weibull_scale) ** weibull_shape))

    return sequential_draw(cdf, fraction)


def group_ids(num_clients: int, groups: int) -> Array:
    """Returns the group of each client [K]: neighbours, in almost equal sizes."""
    return jnp.arange(num_clients) * min(groups, num_clients) // num_clients


def cyclic(fraction: float, cyclic_groups: int = 4) -> Sampler:
    """Groups take turns; of the group, a share of all clients or as many as it has."""

    def sampler(key, num_clients, r):
        turn = r % min(cyclic_groups, num_clients)
        group_K = group_ids(num_clients, cyclic_groups) == turn
        score_K = jnp.where(group_K, jax.random.uniform(key, (num_clients,)), -1.0)
        return all_report(
            group_K & top_k_mask(score_K, count_of_fraction(fraction, num_clients))
        )

    def at_turn(num_clients):
        longest = -(-num_clients // min(cyclic_groups, num_clients))
        return min(longest, max_of_fraction(fraction)(num_clients))

    return BoundedSampler(sampler, at_turn)


def circular(circular_groups: int = 10) -> Sampler:
    """Groups take turns, each whole."""
    return cyclic(1.0, circular_groups)


UPLOAD_LOST, EITHER = (
    2,
    3,
)  # streams of a round's key; `split` of a sampler uses 0 and 1
SAMPLERS: dict[str, Callable[..., Sampler]] = {
    "all": all_clients,
    "uniform": uniform,
    "beta": beta,
    "gamma": gamma,
    "weibull": weibull,
    "cyclic": cyclic,
    "circular": circular,
    "random_count": random_count,
}


def with_dropouts(sampler: Sampler, share: float | Array) -> Sampler:
    """Returns a sampler whose uploads are lost with probability `share`."""

    def lossy(key, num_clients, r):
        participants = sampler(key, num_clients, r)  # the same as without dropouts
        draw_K = jax.random.uniform(
            jax.random.fold_in(key, UPLOAD_LOST), (num_clients,)
        )
        arrives_K = draw_K >= share
        return participants._replace(reports=participants.reports & arrives_K)

    return BoundedSampler(lossy, partial(max_clients, sampler))


def mixture(first: Sampler, other: Sampler, probability: float | Array) -> Sampler:
    """Returns a sampler that uses the first one with a probability, else the other."""

    def sampler(key, num_clients, r):
        heads = jax.random.bernoulli(jax.random.fold_in(key, EITHER), probability)
        either = (f(key, num_clients, r) for f in (first, other))
        return Participation(
            *(jnp.where(heads, a, b) for a, b in zip(*either, strict=True))
        )

    return BoundedSampler(
        sampler, lambda n: max(max_clients(first, n), max_clients(other, n))
    )
