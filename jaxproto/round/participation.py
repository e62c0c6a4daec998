"""Samplers of a round's participants: `(key, num_clients, r) -> Participation`.

Randomness is a function of the round's key and the client id, never of position. `r`
counts rounds from 0; only samplers with a schedule use it. The arguments of the entries
of `SAMPLERS` are fields of a configuration's `participation`, with equal names.

Beta, Gamma, Weibull, cyclic, circular and random-count samplers follow FAST's released
code, https://github.com/RogerRogerUSC/FAST, with two deviations. A share is the nearest
whole number of clients, at least one; the code rounds it up for Beta, Gamma and Weibull
and down for uniform sampling and cyclic groups. Groups cover every client; the code
drops the remainder of the division.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import logsumexp

from jaxproto.core.hyperparameters import is_concrete
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.registry import Registry
from jaxproto.core.types import Array, Net
from jaxproto.errors import UserError


class Participation(NamedTuple):
    """Flags by client id: whether a client trains, and whether its upload arrives.

    A client that trains without reporting keeps its progress.
    """

    trains: Array  # [K]
    reports: Array  # [K], a subset of `trains`


Draw = Callable[[Array, int, Array | int], Participation]  # key, num_clients, r


@dataclasses.dataclass(frozen=True)
class BoundedSampler:
    """Sampler with the maximum number of clients, which sizes the arrays of a round."""

    draw: Draw
    most: Callable[[int], int]  # num_clients -> maximum; no traced floats

    def __call__(self, key: Array, num_clients: int, r: Array | int) -> Participation:
        """Draws the participants of round `r`."""
        return self.draw(key, num_clients, r)


Sampler = Draw | BoundedSampler


def max_clients(sampler: Sampler, num_clients: int) -> int:
    """Returns the most clients that a sampler can draw; all if it is not bounded."""
    if not isinstance(sampler, BoundedSampler):
        return num_clients
    return min(num_clients, sampler.most(num_clients))


def row_count(clients: int) -> int:
    """Returns the rows of a round's arrays for at most `clients` participants.

    Rounds up by at most an eighth, so that nearby shares have equal compiled programs.
    """
    step = 1 << max(0, (clients - 1).bit_length() - 4)
    return -(-clients // step) * step


def all_report(on_K: Array) -> Participation:
    """Returns the participation in which every client that trains reports."""
    return Participation(on_K, on_K)


def all_clients() -> Sampler:
    """Returns a sampler of all clients in every round (the four papers)."""

    def sampler(key, num_clients, r):
        return all_report(jnp.ones(num_clients, bool))

    return sampler


def count_of_fraction(fraction: float | Array, num_clients: int) -> Array:
    """Returns the nearest whole number of clients, at least one."""
    return jnp.maximum(jnp.round(jnp.float32(fraction) * num_clients), 1)


def max_of_fraction(fraction: float | Array) -> Callable[[int], int]:
    """Returns a function for `BoundedSampler.most`: `count_of_fraction` on the host."""
    return lambda num_clients: max(
        int(np.round(np.float32(fraction) * np.float32(num_clients))), 1
    )


def top_k_mask(score_K: Array, count: Array) -> Array:
    """Returns a mask of the `count` largest scores; of equal scores, the first."""
    count = jnp.asarray(count, jnp.int32)
    threshold = jnp.sort(score_K)[len(score_K) - count]
    above_K, equal_K = score_K > threshold, score_K == threshold
    return above_K | equal_K & (jnp.cumsum(equal_K) <= count - jnp.sum(above_K))


def uniform(fraction: float | Array) -> Sampler:
    """Returns a sampler of a uniformly drawn share of the clients, at least one."""

    def sampler(key, num_clients, r):
        score_K = -jax.random.uniform(key, (num_clients,))
        return all_report(top_k_mask(score_K, count_of_fraction(fraction, num_clients)))

    return BoundedSampler(sampler, max_of_fraction(fraction))


def random_count() -> Sampler:
    """Returns a sampler that draws a number of clients, then the clients, uniformly."""

    def sampler(key, num_clients, r):
        count_key, which_key = jax.random.split(key)
        count = jax.random.randint(count_key, (), 1, num_clients + 1)
        score_K = jax.random.uniform(which_key, (num_clients,))
        return all_report(top_k_mask(score_K, count))

    return sampler


NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)  # on [-1, 1]


def log_masses(law: Any, edge: Array, *shape: float, **scale: float) -> Array:
    """Returns the logarithm of a distribution's mass between neighbouring edges, [K].

    Differences of distribution functions lose their digits in float32, so the density
    is integrated. It may be infinite at 0 or at 1.

    Args:
      law: Module such as `jax.scipy.stats.beta`.
      edge: Edges [K + 1] of K equally wide intervals from 0 to 1.
      *shape, **scale: Parameters of the distribution.
    """
    cdf, sf, logpdf = (
        lambda x, f=f: f(x, *shape, **scale) for f in (law.cdf, law.sf, law.logpdf)
    )
    low, high, at = edge[:-1], edge[1:], NODES[:, None]
    log_density = logpdf((low * (1 - at) + high * (1 + at)) / 2)
    weight = WEIGHTS[:, None] / 2 / len(low)
    log_mass_K = logsumexp(log_density, axis=0, b=weight)
    is_infinite = jnp.isposinf(logpdf(edge))
    log_mass_K = jnp.where(is_infinite[:-1], jnp.log(cdf(edge[1])), log_mass_K)
    return jnp.where(is_infinite[1:], jnp.log(sf(edge[-2])), log_mass_K)


def sequential_draw(
    log_mass: Callable[[Array], Array], fraction: float | Array
) -> Sampler:
    """Returns a sampler that draws a share of the clients without replacement.

    Args:
      log_mass: Edges [K + 1] of intervals -> logarithm of a law's mass on each, [K].
        Client i is drawn in proportion to the mass on [i / K, (i + 1) / K). Mass beyond
        1 is ignored.
      fraction: Share of the clients.

    Raises:
      UserError: The share is 1, so every client would take part.
    """
    if is_concrete(fraction) and fraction >= 1:
        raise UserError(
            f"participation.fraction is {fraction}: every client would take part, "
            "whatever the law says of their order; set a smaller one (FAST: 0.1)."
        )

    def sampler(key, num_clients, r):
        edge = jnp.arange(num_clients + 1) / num_clients
        score_K = log_mass(edge) + jax.random.gumbel(key, (num_clients,))
        return all_report(top_k_mask(score_K, count_of_fraction(fraction, num_clients)))

    return BoundedSampler(sampler, max_of_fraction(fraction))


def beta(fraction: float, beta_a: float = 1.0, beta_b: float = 10.0) -> Sampler:
    """Returns a sampler of client ids by a Beta distribution, by default mostly low."""
    law = stats.beta
    return sequential_draw(lambda x: log_masses(law, x, beta_a, beta_b), fraction)


def gamma(
    fraction: float, gamma_shape: float = 10.0, gamma_scale: float = 0.01
) -> Sampler:
    """Returns a sampler of ids by a Gamma distribution, by default of mean 0.1 K."""

    def log_mass(edge):
        return log_masses(stats.gamma, edge, gamma_shape, scale=gamma_scale)

    return sequential_draw(log_mass, fraction)


def weibull(
    fraction: float, weibull_shape: float = 10.0, weibull_scale: float = 1 / 1.2
) -> Sampler:
    """Returns a sampler of ids by a Weibull distribution, by default of mode 0.82 K."""

    def log_mass(edge):
        cdf = -jnp.expm1(-((edge / weibull_scale) ** weibull_shape))
        return jnp.log(jnp.maximum(jnp.diff(cdf), 1e-30))  # every client can be drawn

    return sequential_draw(log_mass, fraction)


def cyclic(fraction: float, cyclic_groups: int = 4) -> Sampler:
    """Returns a sampler that takes groups in turn: consecutive ids, sizes within one.

    Args:
      fraction: Share of all clients that a round draws from its group, at most all
        clients of the group.
      cyclic_groups: Number of groups.
    """

    def sampler(key, num_clients, r):
        groups = min(cyclic_groups, num_clients)
        group_K = jnp.arange(num_clients) * groups // num_clients == r % groups
        score_K = jnp.where(group_K, jax.random.uniform(key, (num_clients,)), -1.0)
        count = count_of_fraction(fraction, num_clients)
        return all_report(group_K & top_k_mask(score_K, count))

    def most(num_clients):
        largest_group = -(-num_clients // min(cyclic_groups, num_clients))
        return min(largest_group, max_of_fraction(fraction)(num_clients))

    return BoundedSampler(sampler, most)


def circular(circular_groups: int = 10) -> Sampler:
    """Returns a sampler that takes whole groups in turn."""
    return cyclic(1.0, circular_groups)


# streams of a round's key; `split` of a sampler uses 0 and 1
UPLOAD_LOST, MIXTURE = 2, 3
_BUILTIN: dict[str, Callable[..., Sampler]] = {
    "all": all_clients,
    "uniform": uniform,
    "beta": beta,
    "gamma": gamma,
    "weibull": weibull,
    "cyclic": cyclic,
    "circular": circular,
    "random_count": random_count,
}
SAMPLERS: Registry[Callable[..., Sampler]] = Registry(
    "sampler", _BUILTIN, group="jaxproto.samplers"
)


def with_dropouts(sampler: Sampler, share: float | Array) -> Sampler:
    """Returns the sampler with uploads that are lost with probability `share`."""

    def lossy(key, num_clients, r):
        participants = sampler(key, num_clients, r)  # equal with and without dropouts
        lost_key = jax.random.fold_in(key, UPLOAD_LOST)
        arrives_K = jax.random.uniform(lost_key, (num_clients,)) >= share
        return participants._replace(reports=participants.reports & arrives_K)

    return BoundedSampler(lossy, partial(max_clients, sampler))


def mixture(first: Sampler, other: Sampler, probability: float | Array) -> Sampler:
    """Returns a sampler that uses `first` with a probability in a round, or `other`."""
    samplers = first, other

    def sampler(key, num_clients, r):
        use_first = jax.random.bernoulli(jax.random.fold_in(key, MIXTURE), probability)
        draws = (f(key, num_clients, r) for f in samplers)
        return Participation(*map(partial(jnp.where, use_first), *draws))

    return BoundedSampler(sampler, lambda n: max(max_clients(f, n) for f in samplers))


def max_rows_of(method: Method, sampler: Sampler, net: Net, clients: int) -> int:
    """Returns the number of participant rows for the sampler that a method makes."""
    counts: list[int] = []

    def trace(key):
        server = method.init_server(net, key)
        adjusted = method.adjust_sampler(sampler, server)
        counts.append(max_clients(adjusted, clients))

    jax.eval_shape(trace, jax.eval_shape(make_key, 0))
    return min(clients, row_count(counts[0]))
