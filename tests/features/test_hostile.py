"""Attacks, robust centres against numpy, and what both do to runs."""

import dataclasses
import itertools
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import runs, toys
from support.every import check_every
from support.fast_jit import jit
from support.fields import changed
from support.refusal import refused
from support.simulated import QUIET, simulated, small

import jaxproto
from jaxproto import config, wire
from jaxproto.core.types import Protos
from jaxproto.experiment import traced
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.features.robustness import attacks
from jaxproto.features.robustness.attacks import Attack, attacked
from jaxproto.features.robustness.hostile_clients import hostile_clients
from jaxproto.features.robustness.registry import ATTACKS, CENTRES
from jaxproto.features.robustness.robust_aggregation import centred, robust
from jaxproto.methods import METHODS
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.round.uploads import PreReport, Report
from jaxproto.training import rounds

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

    @partial(jit, static_argnums=0)
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
    protos, sent = jit(partial(attacks.deviated, s=S))(up, hostile)
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
def test_only_hostile_clients_train_on_flipped_labels(monkeypatch):
    honest = uploads(PLAIN)
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


def trimmed(x, share):
    b = min(int(np.ceil(share * len(x) - 1e-4)), (len(x) - 1) // 2)
    return np.sort(x, 0)[b : len(x) - b].mean(0)


def clipped(x, share):
    length = np.linalg.norm(x, axis=1)
    limit = np.sort(length)[(len(x) - 1) // 2]
    return (x * np.minimum(1, limit / length)[:, None]).mean(0)


def krum(x, share):
    b = min(int(np.ceil(share * len(x) - 1e-4)), (len(x) - 1) // 2)
    score = []
    for i in range(len(x)):
        away = np.sort([np.sum((a - x[i]) ** 2) for j, a in enumerate(x) if j != i])
        score.append(away[: max(len(x) - b - 2, 1)].sum())
    return x[np.argmin(score)]


def geometric(x, share):
    point = x.mean(0)
    for _ in range(3000):
        away = np.maximum(np.linalg.norm(x - point, axis=1), 1e-12)
        point = (x / away[:, None]).sum(0) / (1 / away).sum()
    return point


REFERENCES = {"trimmed_mean": trimmed, "clipped_mean": clipped, "krum": krum}
REFERENCES |= {"geometric_median": geometric}
REFERENCES |= {"median": lambda x, share: np.median(x, 0)}


def test_centres_are_those_of_numpy_over_the_senders_alone():
    assert {*REFERENCES} == {*CENTRES}

    def check(name, senders, share):
        x = RNG.normal(size=(9, 5)).astype(np.float32)
        sent = RNG.permutation(np.arange(9) < senders)
        found = jit(CENTRES[name])(jnp.asarray(x), jnp.asarray(sent), share)
        wanted = REFERENCES[name](x[sent].astype(float), share)
        if name == "geometric_median":  # many points may be nearly as good
            away = (np.linalg.norm(x[sent] - p, axis=1) for p in (found, wanted))
            found, wanted = (a.sum() for a in away)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)

    check_every([*itertools.product(CENTRES, (1, 2, 3, 6, 9), (0.2, SHARE))], check)


def test_no_minority_moves_a_centre_far():
    honest = RNG.normal(size=(7, 4)).astype(np.float32)
    x = np.concatenate([honest, np.full((3, 4), 1e30, np.float32)])  # squares overflow
    for name, centre in CENTRES.items():
        found = jit(centre)(jnp.asarray(x), jnp.ones(10, bool), SHARE)
        assert np.linalg.norm(found) < 3.0, name


def test_uploads_have_one_centre_per_class_and_one_of_all_arrays():
    """Lost and infinite uploads count in neither; whole numbers stay."""
    mean = RNG.normal(size=(6, 3, 2)).astype(np.float32)
    count = np.float32([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1], [0] * 3])
    mean *= count[..., None] > 0
    mean[4, 2] = np.nan  # so that all of client 4 is lost
    weights = RNG.normal(size=(6, 2, 2)).astype(np.float32)
    weights[5] = 0
    size = np.int32([3, 1, 4, 1, 5, 0])
    up = Protos(jnp.asarray(mean), jnp.asarray(count)), jnp.asarray(weights), size
    of_krum = jit(lambda up: centred(up, CENTRES["krum"], SHARE))
    protos, arrays, sizes = jax.device_get(of_krum(up))
    np.testing.assert_array_equal(sizes, [3, 1, 4, 1, 0, 0])
    held = [[0, 1, 2, 3], [0, 2, 3]]
    for c, who in enumerate(held):
        wanted = krum(mean[who, c], SHARE)
        np.testing.assert_allclose(protos.mean[who, c], [wanted] * len(who), rtol=1e-5)
    assert not protos.count[4:].any() and not protos.mean[:, 2].any()
    wanted = krum(weights[:4].reshape(4, -1), SHARE).reshape(2, 2)
    np.testing.assert_allclose(arrays[:4], [wanted] * 4, atol=1e-5)
    assert not arrays[4:].any()


def test_the_server_takes_the_centre_whatever_weights_clients_claim():
    params = RNG.normal(size=(10, 3, 4)).astype(np.float32)
    up = FedAvgUpload({"net": params}, jnp.full(10, 7).at[:2].set(10**6))
    used = robust(toys.method(METHODS["fedavg"]), CENTRES["median"], SHARE, 1e6)
    end = jit(used.aggregation)(None, {"net": params[0]}, up, jax.random.key(0))
    np.testing.assert_allclose(end["net"], np.median(params, 0), rtol=1e-5)


def test_values_near_the_largest_float_count_as_lost():
    honest = RNG.normal(size=(7, 4)).astype(np.float32)
    x = jnp.asarray(np.concatenate([honest, np.full((3, 4), 3e38, np.float32)]))
    for name, centre in CENTRES.items():
        used = robust(toys.method(METHODS["fedavg"]), centre, SHARE, 1e6)
        up = FedAvgUpload({"net": x}, jnp.ones(10))
        end = jit(used.aggregation)(None, {"net": x[0]}, up, jax.random.key(0))
        wanted = jit(partial(centred, centre=centre, share=SHARE))(x[:7])[0]
        np.testing.assert_allclose(end["net"], wanted, rtol=1e-5, err_msg=name)


def outputs(usable, steps=(2, 2, 2), pre=None):
    """Outputs of a round of three clients."""
    ids, zeros, ones = np.arange(3), np.zeros(3), np.ones(3, bool)
    usable, steps = np.array(usable), np.array(steps)
    report = Report(ids, zeros, steps, usable, ones, {}, zeros, zeros, zeros)
    before = [] if pre is None else [PreReport(ids, zeros, zeros, np.array(pre))]
    return rounds.RoundOutputs(None, 0, 0, [report], before, {})


def test_a_run_that_drops_uploads_diverges_when_no_honest_client_is_usable():
    up, every = "float32", [CohortPlan("net", None, (0, 1, 2))]
    used = robust(toys.method(METHODS["fedavg"]), CENTRES["median"], SHARE, 1e6)
    hostile = dataclasses.replace(used, scored=lambda id_K: np.asarray(id_K) < 2)

    def diverges(*args, method=used, **kwargs):
        exp = SimpleNamespace(method=method, formats=wire.Wire(up), cohorts=every)
        try:
            rounds.check_finite(exp, 0, outputs(*args, **kwargs))
        except rounds.Diverged as e:
            return "So have all that took part" in str(e)
        return False

    yes, no = True, False
    assert diverges([no, no, no]) and not diverges([no, no, yes])
    assert diverges([no, no, yes], method=hostile)
    assert not diverges([no, yes, no], method=hostile)
    assert not diverges([yes, yes, no], steps=(0, 0, 2), method=hostile)
    assert diverges([no, yes, yes], steps=(2, 0, 0))
    assert diverges([yes, yes, yes], pre=[no, no, no])


def diverging(spec, *, first: float = 0.0):
    """FedAvg whose clients from `first` on have a loss that is NaN."""
    fedavg = METHODS["fedavg"](spec)

    def loss(net, params, norm, batch, down, client):
        value, aux = fedavg.loss(net, params, norm, batch, down, client)
        return value * jnp.where(client.id >= first, jnp.nan, 1.0), aux

    return dataclasses.replace(fedavg, loss=loss)


MEDIAN = {"rounds": 3, "robust__aggregate": "median"}


def test_honest_clients_that_diverge_are_named_once(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", diverging)
    c = runs.small("mine", method__first=2.0, **MEDIAN)
    summary, said = runs.run(c, tmp_path, width=200)
    line = "round 1: weights are not finite, for the first time: clients 2"
    assert summary["status"] == "finished" and summary["warnings"][0] == line
    assert said.count(f"warning: {line}") == 2  # in its round, and at the end
    assert said.count("so counted as lost: clients 2\n") == 3


@pytest.mark.long
def test_honest_clients_that_all_diverge_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", diverging)
    summary, said = runs.run(runs.small("mine", **MEDIAN), tmp_path, width=400)
    assert summary["status"] == "diverged" and "diverged: round 1: client " in said
    assert "So have all that took part" in summary["reason"]


@pytest.mark.long
def test_rounds_of_all_kinds_end_when_all_clients_diverge(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", diverging)
    sampled = {"participation__law": "uniform", "participation__fraction": 0.5}
    kinds = {
        "asynchronous": {"time__devices": "lognormal", "time__buffer": 2},
        "hosted": {"clients__store": "host", **sampled},
    }
    for name, fields in kinds.items():
        c = runs.small("mine", rounds=3, robust__aggregate="median", **fields)
        summary = simulated(c, tmp_path / name)
        assert (name, summary["status"]) == (name, "diverged")
        assert summary["reason"].startswith("round 1:")


@pytest.mark.long
def test_a_run_stops_at_nan_unless_its_aggregation_drops_it(tmp_path):
    c = small("fedavg", 3, attack__kind="nan", attack__clients="1")
    assert simulated(c, tmp_path / "mean")["status"] == "diverged"
    fields = {"attack__kind": "nan", "attack__clients": "2", "data__public_share": 0.05}
    first = simulated(small("fedmd", 1, **fields), tmp_path / "first")
    assert "client 2" in first["reason"]  # all others train on what it sent before
    c.robust.aggregate = "median"
    summary, said = runs.run(c, tmp_path / "median", width=200)
    assert said.count("so counted as lost: clients 1") == 3
    rows = runs.records(tmp_path / "median")
    assert [r["evaluated_clients"] for r in rows] == [2] * 3
    tested = summary["commonest_class"]["examples"]  # of the same clients
    assert tested == sum(rows[0]["by_client"]["test_examples"])


def configured(method="fedproto", **fields):
    return changed(config.experiment(method, "digits"), model__group="mlp", **fields)


def test_hostile_clients_are_drawn_by_the_seed_of_the_data_or_listed():
    ids = np.arange(20)
    both = (configured(attack__share=share) for share in (0.1, 0.3))
    few, many = (np.asarray(hostile_clients(c)(ids)) for c in both)
    assert (few.sum(), many.sum()) == (2, 6) and not np.any(few & ~many)
    other = configured(attack__share=0.3, data__seed=2, seed=5)
    assert np.any(np.asarray(hostile_clients(other)(ids)) != many)
    c = configured(attack__clients="3, 19")
    listed = hostile_clients(c)(np.arange(22))  # two have joined a saved run
    np.testing.assert_array_equal(np.flatnonzero(listed), [3, 19])


def test_programs_of_default_runs_know_nothing_of_attacks_and_shares_are_arguments():
    c = configured(attack__share=0.4, robust__share=0.1, attack__strength=7.0)
    assert traced.program_settings(c) == traced.program_settings(configured())
    on = {"attack__kind": "scale", "robust__aggregate": "krum"}
    a, b = configured(**on), configured(**on, attack__share=0.4, robust__share=0.1)
    assert traced.program_settings(a) == traced.program_settings(b)


def test_what_cannot_be_is_named_before_training(tmp_path):
    of_networks = configured("fedavg", attack__kind="prototype_roll")
    with refused("attack.kind is 'prototype_roll', but fedavg sends nothing that it"):
        jaxproto.run(of_networks, tmp_path / "a", QUIET)
    chosen = configured("refprotofl", robust__aggregate="krum", method__anchors="none")
    with refused("clients of this method choose the entries that they send"):
        jaxproto.run(chosen, tmp_path / "b", QUIET)
