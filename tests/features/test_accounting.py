"""Refusals and accounting of privacy: what has a guarantee, and which."""

import functools
import importlib.util
import itertools

import dp_accounting
import numpy as np
import pytest
from support import quick, runs
from support.every import check_every
from support.refusal import refused

from jaxproto import config
from jaxproto.experiment import build
from jaxproto.experiment import traced as floats
from jaxproto.features.privacy import accounting
from jaxproto.features.privacy import guarantee as private
from jaxproto.features.privacy import ledger as privacy_ledger
from jaxproto.storage.run_folder import RunFolder
from jaxproto.wrappers.privacy import CLIENT, EXAMPLE

quick_runs = quick.quick_runs  # a fixture of all tests here
LONG = functools.partial(pytest.param, marks=pytest.mark.long)
LOT = {"participation.law": "uniform", "participation.fraction": 0.34}


def small(name, unit, **changes):
    return runs.digits(name, **{"rounds": 2, "privacy.unit": unit} | changes)


REFUSED = (
    ("fedkd", CLIENT, {}, "methods with a guarantee"),
    ("fedproto", CLIENT, {"method.aggregate": "mean_over_examples"}, "exact counts"),
    ("tinyproto", CLIENT, {"method.base": "fedtgp"}, "method.base"),
    ("tinyproto", EXAMPLE, {"method.scaling": "mean"}, "method.scaling"),
    ("fedavg", CLIENT, {"method.statistics": "averaged"}, "method.statistics"),
    ("protonorm", EXAMPLE, {"method.reg": "l2_of_means"}, "mixes the examples"),
    ("fedproto", EXAMPLE, {"method.collect": "train_pass"}, "method.collect"),
    ("fedavg", CLIENT, {"participation.law": "random_count"}, "known number"),
    ("fedavg", CLIENT, {"wire.up": "int8"}, "wire.up"),
    ("fedavg", CLIENT, {"data.name": "nodes"}, "data.name is 'nodes'"),
    ("fedavg", EXAMPLE, {"model.compute_dtype": "bfloat16"}, "model.compute_dtype"),
    ("fedavg", "clients", {}, "Did you mean 'client'"),
)


def test_what_has_no_guarantee_is_refused_and_what_has_one_is_not(monkeypatch):
    with monkeypatch.context() as patch, refused("jaxproto[privacy]"):
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        config.check(small("fedavg", CLIENT))

    def check(name, unit, changes, said):
        with refused(said):
            config.check(small(name, unit, **changes))

    check_every(REFUSED, check)
    methods = private.private_methods()
    assert {*methods} == {"fedavg", "fedproto", "protonorm", "tinyproto"}
    for name, unit in itertools.product(methods, (CLIENT, EXAMPLE)):
        config.check(small(name, unit))
    c = small("fedavg", EXAMPLE, **{"model.group": "resnet18"})
    with refused("BatchNorm"):  # where examples are the unit
        build.experiment(c, "cpu")


@pytest.mark.parametrize("unit", ["off", LONG(EXAMPLE)])
def test_clip_and_noise_are_arguments_of_programs_which_off_leaves_as_they_are(unit):
    changes = {"privacy.clip": 3.0, "privacy.noise": 2.0}
    changes["privacy.delta"] = 0.1
    one, other = small("fedproto", unit), small("fedproto", unit, **changes)
    assert floats.program_settings(one) == floats.program_settings(other)
    assert runs.jaxprs(one) == runs.jaxprs(other)
    off = floats.traced_floats(small("fedproto", "off"))
    assert not any(path.startswith("privacy.") for path in off)


def test_epsilon_is_that_of_dp_accounting_and_sampling_amplifies():
    one = dp_accounting.get_epsilon_gaussian(1.0, 1e-5)
    assert accounting.epsilon_composed(2.0, 1, 1e-5) == pytest.approx(one, rel=1e-6)
    assert accounting.epsilon_composed(4.0, 4, 1e-5) == pytest.approx(one, rel=1e-6)
    assert one == pytest.approx(4.377, abs=0.001)  # Balle and Wang, Theorem 8
    assert accounting.epsilon_composed(1.0, 0, 1e-5) == 0
    few = accounting.epsilon_subsampled(8.0, 10, 1e-5, 1000, 10)
    all_ = accounting.epsilon_subsampled(8.0, 10, 1e-5, 1000, 1000)
    plain = accounting.epsilon_composed(8.0, 10, 1e-5)  # without replacement
    assert few < plain / 4 and all_ == pytest.approx(plain)


def test_a_participant_knows_its_own_share_of_the_noise():
    for clients, noise, rounds, epsilon in (
        *((3, 4.0, 20, 14.83), (20, 4.0, 20, 11.85)),
        *((2, 1.0, 1, 15.5), (1, 1.0, 1, 10.0)),
    ):
        fields = {"data.clients": clients, "privacy.noise": noise}
        c = small("fedproto", CLIENT, **fields)
        found = private.epsilon_record(c, np.full(clients, rounds), rounds)
        assert found["epsilon"] == pytest.approx(epsilon, abs=0.05)
    half = LOT | {"participation.fraction": 0.5}
    c = small("fedavg", CLIENT, **half, **{"data.clients": 4, "privacy.noise": 8.0})
    found = private.epsilon_record(c, np.full(4, 5), 10)
    # of 3 others 2 are drawn, and 1 share of the noise is known
    wanted = accounting.epsilon_subsampled(8 / 2**0.5, 10, 1e-5, 3, 2)
    assert found["amplified"] and found["epsilon"] == pytest.approx(wanted)


def test_only_clients_that_keep_nothing_are_amplified():
    def said(name, unit, **changes):
        c = small(name, unit, **LOT, **changes)
        return private.epsilon_record(c, np.array([1, 2, 0]), 3)

    assert said("fedavg", CLIENT)["amplified"]
    assert not said("fedavg", CLIENT, **{"local.optimizer_state": "keep"})["amplified"]
    proto = said("fedproto", CLIENT)
    assert not proto["amplified"] and proto["most_rounds"] == 2
    assert proto["epsilon"] == accounting.epsilon_composed(1.0, 2, 1e-5)
    for name, times in (("fedproto", 4), ("fedavg", 2)):  # an epoch and prototypes
        found = said(name, EXAMPLE)
        assert not found["amplified"]
        assert found["epsilon"] == accounting.epsilon_composed(1.0, times, 1e-5)


@pytest.mark.long
def test_a_run_counts_the_round_in_which_it_diverged(tmp_path):
    c = small("fedavg", CLIENT, **{"optimizer.learning_rate": 1e38})
    summary, _ = runs.run(c, tmp_path)
    assert summary["status"] == "diverged" and summary["rounds"] == 0
    spent = private.epsilon_record(c, np.ones(3), 1)
    assert summary["privacy"] == spent | {"rehearsed": True}


@pytest.mark.long
@pytest.mark.parametrize(("name", "unit"), [("fedproto", EXAMPLE), ("fedavg", CLIENT)])
def test_a_run_that_goes_on_ends_in_the_same_bits(name, unit, tmp_path):
    law = LOT | {"participation.fraction": 0.67}
    whole = small(name, unit, **law, eval_every=1)
    first = whole.copy_and_resolve_references()
    first.rounds = 1
    for c, part in ((whole, "whole"), (first, "parts"), (whole, "parts")):
        runs.run(c, tmp_path / part)
    ends = [runs.records(tmp_path / part) for part in ("whole", "parts")]
    for record in (*ends[0], *ends[1]):
        del record["every_round"]
    assert ends[0] == ends[1]
    taken = privacy_ledger.participation_matrix(whole, build.experiment(whole, "cpu"))
    assert taken.sum(1).tolist() == [r["participants"] for r in ends[0]]
    loaded = RunFolder.read(tmp_path / "whole")
    assert loaded.results["privacy"] == ends[0][-1]["privacy"]
    assert ends[0][0]["privacy"]["epsilon"] < ends[0][1]["privacy"]["epsilon"]
