"""The audit finds a guarantee that holds, and one that does not."""

import json

import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from support.refusal import refused

from jaxproto import config
from jaxproto.attacks.cli import audit as command
from jaxproto.attacks.privacy_audit import AuditRequest, audit, epsilon_lower_bound
from jaxproto.features.privacy import accounting
from jaxproto.features.privacy.guarantee import private_methods
from jaxproto.lab.callbacks import pictures
from jaxproto.training import runner
from jaxproto.wrappers.privacy import CLIENT, EXAMPLE, mechanism

pytest.importorskip("dp_accounting", reason="extra `privacy`")
REQUEST = AuditRequest(trials=4000)


def trained(tmp_path, monkeypatch, method="fedavg", unit=EXAMPLE):
    monkeypatch.setattr(pictures, "draw_all", lambda *args: None)
    made = config.experiment(method, "spiral")
    made.rounds, made.local.batch_size = 1, 1000
    made.optimizer.schedule = "cosine"  # 0 behind the last round
    made.privacy.unit, made.privacy.noise = unit, 2.0
    runner.run(made, tmp_path / "run", Console(quiet=True))
    return tmp_path / "run"


def test_the_bound_of_a_gaussian_is_below_its_epsilon_and_near():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, 100_000), rng.normal(1, 1, 100_000)
    epsilon = accounting.epsilon_composed(2.0, 1, 1e-5)  # moved by one deviation
    found = epsilon_lower_bound(first, second, 1e-5, 0.95)
    assert 0.5 * epsilon < found < epsilon
    assert epsilon_lower_bound(second, second, 1e-5, 0.95) < 0.1
    # nobody errs: what Clopper and Pearson leave of 500 keys
    apart = epsilon_lower_bound(np.zeros(1000), np.ones(1000), 0.0, 0.95)
    high = stats.beta.ppf(1 - 0.0125, 1, 500)
    assert apart == pytest.approx(np.log((1 - high) / high))


@pytest.mark.long
def test_a_round_has_no_more_than_its_epsilon_unless_noise_is_missing(
    tmp_path, monkeypatch, capsys
):
    given = [str(trained(tmp_path, monkeypatch)), "--trials=4000", "--format=json"]

    def found():
        is_refuted = command.main("audit", given)
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        return is_refuted, row["epsilon of a round"], row["audited: at least"]

    is_refuted, claimed, audited = found()
    epsilon = accounting.epsilon_composed(2.0, 1, 1e-5)
    assert claimed == pytest.approx(epsilon, abs=0.01)
    assert 1 < audited < claimed and not is_refuted
    whole = mechanism.add_gaussian_noise

    def tenth(tree, deviation, key):
        return whole(tree, deviation / 10, key)

    monkeypatch.setattr(mechanism, "add_gaussian_noise", tenth)
    is_refuted, claimed, audited = found()
    assert audited > claimed and is_refuted


@pytest.mark.long
@pytest.mark.parametrize("unit", [CLIENT, EXAMPLE])
@pytest.mark.parametrize("method", private_methods())
def test_every_private_method_keeps_its_claim(method, unit, tmp_path, monkeypatch):
    found = audit(trained(tmp_path, monkeypatch, method, unit), REQUEST)
    # one step moves a network by little of the length to which an upload is clipped
    unseen = (method, unit) == ("fedavg", CLIENT)
    assert (found.audited > 0) is not unseen and found.audited < found.claimed


@pytest.mark.long
def test_what_cannot_be_audited_is_refused(trained_runs):
    with refused("privacy.unit=off"):
        audit(trained_runs("fedavg"), REQUEST)
    with refused("at least 2 trials"):
        command.main("audit", ["x", "--trials=1"])
