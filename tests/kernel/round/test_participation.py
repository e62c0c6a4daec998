"""Participation: the requested number, by identity, and never an empty round."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from support.every import check_every, every
from support.fast_jit import jit
from support.refusal import refused

from jaxproto import config
from jaxproto.experiment import build
from jaxproto.round import participation

KEYS = [jax.random.key(i) for i in range(30)]


def turnouts(sampler, clients):
    rounds = jnp.arange(len(KEYS))
    return jax.device_get(over(sampler, clients, jnp.stack(KEYS), rounds))


def over(sampler, clients, keys, rounds=0):
    """Participants under every key, [keys, K]."""
    in_axes = 0, None if isinstance(rounds, int) else 0
    return jit(jax.vmap(lambda key, r: sampler(key, clients, r), in_axes))(keys, rounds)


def test_uniform_takes_a_share_that_depends_on_the_round_alone():
    def check(fraction, clients):
        trains, reports = turnouts(participation.uniform(fraction), clients)
        assert np.all(trains.sum(1) == max(1, round(fraction * clients)))
        assert np.array_equal(trains, reports)

    check_every([(0.01, 20), (0.3, 1), (0.3, 10), (0.75, 10), (1.0, 20)], check)
    trains, again = (turnouts(participation.uniform(0.5), 10)[0] for _ in range(2))
    assert np.array_equal(trains, again)
    assert len({row.tobytes() for row in trains}) > 20
    assert np.all(trains.sum(0) >= 6) and np.all(trains.sum(0) <= 24)  # 15 expected


def test_the_largest_are_as_many_as_asked_and_of_equal_ones_the_first():
    score = jnp.asarray([0.5, 0.1, 0.5, 0.9, 0.5, -1.0, 0.1])
    for count in (1, 3, 6, 7):
        by_rank = jnp.argsort(jnp.argsort(-score)) < count
        found = participation.top_k_mask(score, jnp.float32(count))
        assert np.array_equal(found, by_rank) and int(found.sum()) == count


def test_dropouts_only_take_reports_away():
    everyone, few = participation.all_clients(), participation.uniform(0.3)
    either = participation.mixture(few, everyone, 0.5)
    for sampler in (everyone, either):
        trains, reports = turnouts(participation.with_dropouts(sampler, 0.3), 20)
        assert np.all(trains | ~reports)
        assert np.all(trains.sum(1) == turnouts(sampler, 20)[0].sum(1))
        assert 0.2 < 1 - reports.sum() / trains.sum() < 0.4


def by_hand(sampler, clients, count):
    """Share of the rounds each client is in: ids drawn until there are enough."""
    rng, seen, draws = np.random.default_rng(0), np.zeros(clients), 4000
    for _ in range(draws):
        chosen = set()
        while len(chosen) < count:
            i = int(sampler(rng) * clients)
            chosen |= {i} if i < clients else set()
        seen[list(chosen)] += 1 / draws
    return seen


LAWS = {
    "beta": lambda rng: rng.beta(1, 10),
    "gamma": lambda rng: rng.gamma(10, 0.01),
    "weibull": lambda rng: rng.weibull(10) / 1.2,
}


@every(LAWS.items())
def test_index_laws_choose_as_drawing_ids_one_by_one_does(name, draw):
    """FAST's code draws indices by rejection; 20 clients, two a round."""
    c = config.default_config().participation
    c.law, c.fraction = name, 0.1
    sampler = build.build_sampler(c)
    trains = np.asarray(over(sampler, 20, jax.random.split(jax.random.key(1), 4000))[0])
    assert np.all(trains.sum(1) == 2)
    want = by_hand(draw, 20, 2)
    np.testing.assert_allclose(trains.mean(0), want, atol=0.04)
    assert want.max() > 0.3  # far from the 0.1 of a uniform law


MASSES = {"beta": scipy.stats.beta(1, 10), "gamma": scipy.stats.gamma(10, scale=0.01)}


def mass_of(law, clients):
    """Mass [K] of each client in float64, of the tail by the survival function."""
    edge = np.arange(clients + 1) / clients
    low, high = np.diff(law.cdf(edge)), -np.diff(law.sf(edge))
    return np.where(edge[1:] < law.median(), low, high)


@pytest.mark.parametrize(
    "clients", (20, *(pytest.param(n, marks=pytest.mark.long) for n in (1000, 100_000)))
)
@pytest.mark.parametrize("name", MASSES)
def test_beta_and_gamma_choose_as_often_as_the_masses_of_scipy_say(name, clients):
    """Frequencies of 20 groups of consecutive ids at three shares."""
    mass, rng = mass_of(MASSES[name], clients), np.random.default_rng(0)
    draws, fractions = max(2, 30_000 // clients), np.float32([0.1, 0.4, 0.8])
    keys = jax.random.split(jax.random.key(3), draws)

    @jax.vmap
    def frequency(fraction):
        sampler = participation.SAMPLERS[name](fraction)
        return over(sampler, clients, keys).trains.reshape(draws, 20, -1).mean((0, 2))

    for fraction, found in zip(fractions, frequency(fractions), strict=True):
        # scores in float64, of which the largest are drawn
        scores = np.log(mass) + rng.gumbel(size=(draws, clients))
        count = round(fraction * clients)
        chosen = np.argpartition(-scores, count - 1)[:, :count]
        want = np.bincount(chosen.ravel(), minlength=clients) / draws
        np.testing.assert_allclose(found, want.reshape(20, -1).mean(1), atol=0.05)


LAWS = [("beta", 1.0, 10.0), ("gamma", 10.0, 0.01)]
LAWS += [("beta", 0.5, 0.5), ("beta", 5.0, 1.0), ("gamma", 0.5, 0.2)]


@every(product(LAWS, (20, 1_000)))
def test_masses_are_those_of_scipy_also_where_the_density_is_infinite(law, clients):
    (name, shape, other), edge = law, jnp.arange(clients + 1) / clients
    if name == "beta":
        args, scale = (shape, other), {}
    else:
        args, scale = (shape,), {"scale": other}
    log_mass = participation.log_masses(
        getattr(jax.scipy.stats, name), edge, *args, **scale
    )
    want = np.log(mass_of(getattr(scipy.stats, name)(*args, **scale), clients))
    np.testing.assert_allclose(log_mass, want, atol=1e-3)


def test_groups_take_turns_and_reach_everyone():
    """Also the clients that do not fill a group, which FAST's code forgets."""
    for clients in (3, 10, 20):
        turns = turnouts(participation.cyclic(1.0, 4), clients)[0][:8]
        groups = min(4, clients)
        assert np.array_equal(np.sum(turns[:groups], 0), np.ones(clients))
        assert np.array_equal(turns[0], turns[groups])
        assert np.ptp(turns.sum(1)) <= 1
    trains, _ = turnouts(participation.cyclic(0.1), 20)
    assert np.all(trains.sum(1) == 2)
    assert not trains[0, 5:].any() and not trains[1, :5].any()
    c = config.default_config().participation
    c.law, c.circular_groups = "circular", 5
    trains, _ = turnouts(build.build_sampler(c), 20)
    assert np.array_equal(trains[:5], np.repeat(np.eye(5), 4, 1))


def test_a_random_count_is_uniform_and_a_mixture_is_one_of_its_laws():
    keys = jax.random.split(jax.random.key(2), 3000)
    trains = np.asarray(over(participation.random_count(), 5, keys)[0])
    counts = np.bincount(trains.sum(1), minlength=6) / 3000
    np.testing.assert_allclose(counts, [0, 0.2, 0.2, 0.2, 0.2, 0.2], atol=0.03)
    np.testing.assert_allclose(trains.mean(0), 0.6, atol=0.04)
    first, other = participation.uniform(0.3), participation.beta(0.3)
    for heads, want in ((0.0, other), (1.0, first)):
        mixed = turnouts(participation.mixture(first, other, heads), 20)
        assert np.array_equal(mixed[0], turnouts(want, 20)[0])


def test_a_share_that_cannot_be_is_refused():
    c = config.default_config().participation
    for law, fraction, words in (
        ("beta", 1.0, "set a smaller one"),
        ("random_count", 0.5, "does not take a share"),
    ):
        c.law, c.fraction = law, fraction
        with refused(f"fraction is {fraction}", words):
            build.build_sampler(c)


def test_a_sampler_of_ones_own_is_checked_by_shapes(monkeypatch):
    c = config.default_config()
    c.participation.law = "own"
    for own, words in (
        (lambda period=2: None, "unknown argument of sampler 'own' 'period'"),
        (lambda: lambda key, n: 0, "sampler 'own' fails: TypeError"),
        (lambda: lambda key, n, r: jnp.ones(n, bool), "arrays bool[20], such as"),
    ):
        monkeypatch.setitem(participation.SAMPLERS, "own", own)
        with refused(words):
            build.check_sampler(c)
