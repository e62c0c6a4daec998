"""`--baselines`: other methods on the clients of a run, then the run beside them."""

import pytest
from support.commands import called
from support.refusal import refused
from support.runs import ROOT

from jaxproto import config
from jaxproto.config import flatten
from jaxproto.lab import baselines
from jaxproto.storage.default_workdir import resolve_workdir
from jaxproto.training import runner

FEW = "--config=configs/protonorm.py:few"
COMMONEST = {"pooled": 0.4, "client_mean": 0.3, "examples": 1000}


@pytest.fixture
def trained(monkeypatch):
    """Configurations and folders that the command would train, in their order."""
    seen = []

    def run(c, home, **options):
        seen.append((c, home))
        accuracy = 0.6 + 0.1 * (c.method.name == "protonorm")
        both = {k: {"final": accuracy} for k in ("pooled", "client_mean")}
        shares = {"commonest_class": COMMONEST, "rules": {"head": both}}
        sent = {"bytes_per_round": {"up": 0, "down": 0}}
        return {"status": "finished", **shares, **sent}

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.chdir(ROOT)
    return seen


def outside(c, *but):
    """Fields of a configuration that are not of its method."""
    ignored = ("name", *but)
    return {
        k: v
        for k, v in flatten(c).items()
        if k not in ignored and not k.startswith("method.")
    }


def test_baselines_have_the_clients_of_the_run_and_the_values_of_their_presets(trained):
    c = config.load("configs/protonorm.py:few")
    c.rounds, c.optimizer.learning_rate = 7, 0.2
    local, fedproto, fedavg = (
        baselines.baseline(c, name) for name in ("local", "fedproto", "fedavg")
    )
    assert outside(local) == outside(fedproto) == outside(c)
    assert outside(fedavg, "model.group") == outside(c, "model.group")
    assert fedavg.model.group == "cnn4_d"  # as it averages
    assert fedproto.method.lam == 1.28
    c.model.group = "mlp"
    assert baselines.baseline(c, "fedavg").model.group == "mlp"
    assert baselines.baseline(c, "fednh").optimizer.clip_norm == 10.0
    c.data.name = "npz:mine.npz"
    assert baselines.baseline(c, "fedproto").method.lam == 10.0  # neutral


def test_the_command_trains_them_first_where_their_own_commands_would(trained, capsys):
    assert called("run", FEW, "--baselines=local") == 0
    (local, home), (c, _) = trained
    assert (local.method.name, c.method.name) == ("local", "protonorm")
    plain = config.unmodified_config("configs/local.py:few")
    assert home == resolve_workdir(config.load("configs/local.py:few"), plain)
    shown = capsys.readouterr().out
    assert f"baseline Local, on the same clients: {home}\n" in shown
    assert "most frequent class of each client" in shown
    assert "Local on 60.0%: 10.0 points more (one seed)\nnext: " in shown


def test_more_baselines_stand_in_the_table_and_are_the_last_word(trained, capsys):
    assert called("run", FEW, "--workdir=a/b", "--baselines=local,fedavg") == 0
    assert [str(home) for _, home in trained] == ["a/b-local", "a/b-fedavg", "a/b"]
    shown = capsys.readouterr().out
    assert "FedAvg trains one network, cnn4_d, on all clients" in shown
    assert "next: " not in shown


def test_baselines_that_cannot_be_are_one_line(trained):
    c = config.load("configs/protonorm.py:few")

    def beside(*names):
        baselines.run_beside(c, "", names, "", None, print)

    with refused("protonorm is the run itself: leave it out."):
        beside("local", "protonorm")
    with refused("unknown method 'locl'. Did you mean 'local'?"):
        beside("locl")
    said = called("run", FEW, "--baselines=local", "--sweep=seed=0,1")
    assert "sweep and baselines exclude each other: leave one." in said
    assert trained == []
