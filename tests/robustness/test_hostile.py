"""Attacks, and what they and robust centres do to methods, in toys and in runs."""

import io
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from support import toys
from support.every import check_every
from support.federated import QUIET, both, metrics, simulated, small
from support.fields import changed
from support.refusal import refused

import jaxproto
from jaxproto import config
from jaxproto.config.robustness import hostile_clients
from jaxproto.experiment import traced
from jaxproto.methods import METHODS
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.methods.fedproto import FedProtoState
from jaxproto.robustness import ATTACKS, CENTRES, Attack, attacked, attacks, robust
from jaxproto.types import Protos

SHARE = 0.3
RNG = np.random.default_rng(0)
MEAN = np.float32([[1, 0], [0, 2], [0, 0]])
COUNT = np.float32([1, 3, 0])
S = 2.0
CHANGED = {  # attack -> prototypes, their counts, and weights that were 1 and are 3
    "sign_flip": (-S * MEAN, COUNT, 1 - S * 2),
    "scale": (10 * S * MEAN, COUNT, 1 + 10 * S * 2),
    "nan": (MEAN * np.nan, COUNT, np.nan),
    "prototype_roll": (S * MEAN[[2, 0, 1]], COUNT[[2, 0, 1]], 3),
    "prototype_magnet": (S * np.float32([[0.5, 1]] * 3), [3] * 3, 3),
}


def test_every_attack_sends_what_its_line_says():
    protos = Protos(jnp.asarray(MEAN), jnp.asarray(COUNT))
    up, untrained = (protos, jnp.full(2, 3.0), 7), (protos, jnp.full(2, 1.0), 7)
    up, untrained = jax.tree.map(jnp.asarray, (up, untrained))

    def sent(kind):
        attack = Attack(kind, lambda id: id < 1, S)
        return attacks.changed(attack, up, untrained, jax.random.key(0))

    for kind, (mean, count, weight) in CHANGED.items():
        protos, weights, size = sent(kind)
        np.testing.assert_allclose(protos.mean, mean, err_msg=kind)
        np.testing.assert_allclose(protos.count, count, err_msg=kind)
        np.testing.assert_allclose(weights, weight, err_msg=kind)
        assert size == 7
    many = jax.tree.map(lambda a: jnp.full((1, 4000), a), (3.0, 1.0))
    noise = attacks.noisy(*many, S, jax.random.key(0)) - 3.0
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, S * 2], atol=0.2)
    rest = {"label_flip", "noise", "alie"}  # the first and last in tests of their own
    assert {*ATTACKS} == {*CHANGED} | rest


def test_alie_sends_the_mean_less_deviations_of_those_who_hold_a_class():
    mean = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    count = np.float32([[1, 1], [1, 0], [1, 1], [0, 0]])
    mean *= count[..., None]
    weights = np.float32([[1.0], [2.0], [6.0], [0.0]])
    up = Protos(jnp.asarray(mean), jnp.asarray(count)), jnp.asarray(weights)
    hostile = jnp.asarray([True, False, False, True])  # the last was lost
    protos, sent = attacks.deviated(up, hostile, S)
    for c, who in enumerate([[0, 1, 2], [0, 2]]):
        wanted = mean[who, c].mean(0) - S * mean[who, c].std(0)
        np.testing.assert_allclose(protos.mean[0, c], wanted, rtol=1e-4)
    np.testing.assert_array_equal(protos.mean[1:], mean[1:])
    np.testing.assert_allclose(sent[0], 3 - S * weights[:3].std(), rtol=1e-5)
    np.testing.assert_array_equal(sent[1:], weights[1:])


PLAIN = toys.method(METHODS["fednova"])  # sends a change, a number and n_i


def uploads(method):
    return toys.run(method, rounds=1).report.up


@pytest.mark.long
def test_only_hostile_clients_send_something_else(monkeypatch):
    """Hostile uploads are scaled, or come from flipped labels."""
    honest = uploads(PLAIN)
    found = uploads(attacked(PLAIN, Attack("scale", lambda id: id == 2, 0.5)))
    factor = np.where(np.arange(6) == 2, 5.0, 1.0)
    for a, b in zip(*map(jax.tree.leaves, (found.change, honest.change)), strict=True):
        wanted = b * factor.reshape(-1, *[1] * (b.ndim - 1))
        np.testing.assert_allclose(a, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[1:], honest[1:])
    flipped = uploads(attacked(PLAIN, Attack("label_flip", lambda id: id == 2)))
    pool_and_rows = toys.pool_and_rows

    def with_flipped():
        examples, rows = pool_and_rows()
        y = examples.y.at[rows[2]].set(toys.SPEC.num_classes - 1 - examples.y[rows[2]])
        return examples.replace(y=y), rows

    monkeypatch.setattr(toys, "pool_and_rows", with_flipped)
    wanted, others = uploads(PLAIN), np.arange(6) != 2
    for a, b, c in zip(*map(jax.tree.leaves, (flipped, wanted, honest)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        np.testing.assert_allclose(a[others], c[others], atol=1e-5)
    assert toys.gap(flipped.change, honest.change) > 1e-2


KINDS = ("sign_flip", "scale", "noise", "nan")


def sent_by_ten(kind):
    """Networks and prototypes of ten clients near 1, the first two hostile."""
    x = jnp.asarray(1 + 0.1 * RNG.normal(size=(10, 3, 4)), jnp.float32)
    holds = jnp.asarray(np.arange(10)[:, None] % 4 != np.arange(3), jnp.float32)
    up = Protos(x * holds[..., None], holds), x, jnp.full(10, 7).at[:2].set(10**6)
    change = partial(attacks.changed, Attack(kind, None, 30.0), key=jax.random.key(0))
    untrained = jax.tree.map(jnp.zeros_like, up[1:])
    changed = jax.vmap(change)(up, (up[0], *untrained))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[:2], b[2:]]), changed, up)


def test_a_fifth_of_hostile_clients_moves_the_mean_far_and_robust_centres_little():
    networks = {"net": jnp.zeros((3, 4))}
    fedavg, fedproto = (toys.method(METHODS[m]) for m in ("fedavg", "fedproto"))
    sent = {kind: jax.jit(sent_by_ten, static_argnums=0)(kind) for kind in KINDS}

    def check(centre):
        def ends(protos, params, size):
            for method, state, up in (
                (fedavg, networks, FedAvgUpload({"net": params}, size)),
                (fedproto, FedProtoState(protos, ()), protos),
            ):
                used = robust(method, CENTRES[centre], SHARE) if centre else method
                end = used.aggregation(None, state, up, jax.random.key(0))
                yield jnp.max(jnp.abs(jax.tree.leaves(end)[0] - 1.0))

        moved = jax.jit(lambda *up: [*ends(*up)])
        for kind in KINDS:
            for away in map(float, moved(*sent[kind])):
                assert away < 0.8 if centre else not away < 3.0, (kind, away)

    check_every([None, *CENTRES], check)


@pytest.mark.long
def test_a_run_stops_at_nan_unless_its_aggregation_drops_it(tmp_path):
    c = small("fedavg", 3, attack__kind="nan", attack__clients="1")
    assert simulated(c, tmp_path / "mean")["status"] == "diverged"
    c.robust.aggregate = "median"
    console = Console(file=io.StringIO(), width=200)
    assert jaxproto.run(c, tmp_path / "median", console)["status"] == "finished"
    lines = console.file.getvalue()
    assert lines.count("not finite, so counted as lost: clients 1") == 3
    assert [r["evaluated_clients"] for r in metrics(tmp_path / "median")] == [2] * 3


@pytest.mark.long
def test_records_of_nodes_that_attack_are_those_of_the_simulator(tmp_path):
    for method, kind in (("fedavg", "alie"), ("fedproto", "noise")):
        fields = {"robust__aggregate": "clipped_mean", "attack__clients": "1"}
        both(small(method, attack__kind=kind, **fields), tmp_path / method)


def configured(method="fedproto", **fields):
    return changed(config.experiment(method, "digits"), model__group="mlp", **fields)


def test_hostile_clients_are_drawn_by_the_seed_of_the_data_or_listed():
    ids = np.arange(20)
    both = (configured(attack__share=share) for share in (0.1, 0.3))
    few, many = (np.asarray(hostile_clients(c)(ids)) for c in both)
    assert (few.sum(), many.sum()) == (2, 6) and not np.any(few & ~many)
    other = configured(attack__share=0.3, data__seed=2, seed=5)
    assert np.any(np.asarray(hostile_clients(other)(ids)) != many)
    listed = hostile_clients(configured(attack__clients="3, 7"))(ids)
    np.testing.assert_array_equal(np.flatnonzero(listed), [3, 7])


def test_programs_of_default_runs_know_nothing_of_attacks_and_shares_are_arguments():
    c = configured(attack__share=0.4, robust__share=0.1, attack__strength=7.0)
    assert traced.program_settings(c) == traced.program_settings(configured())
    ours = {"attack.share", "attack.strength", "robust.share"}
    assert not ours & {*traced.traced_floats(c)}
    on = {"attack__kind": "scale", "robust__aggregate": "krum"}
    a, b = configured(**on), configured(**on, attack__share=0.4, robust__share=0.1)
    assert traced.program_settings(a) == traced.program_settings(b)
    assert traced.traced_floats(a) != traced.traced_floats(b)


def test_what_cannot_be_is_named_before_training(tmp_path):
    of_networks = configured("fedavg", attack__kind="prototype_roll")
    with refused("attack.kind is 'prototype_roll', but fedavg sends nothing that it"):
        jaxproto.run(of_networks, tmp_path / "a", QUIET)
    chosen = configured("refprotofl", robust__aggregate="krum", method__anchors="none")
    with refused("clients of this method choose the entries that they send"):
        jaxproto.run(chosen, tmp_path / "b", QUIET)
