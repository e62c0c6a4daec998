"""Readings of methods: the hyper-parameters of a paper or of its code."""

import numpy as np
import pytest
from support.commands import called
from support.every import check_every, every
from support.fields import changed
from support.runs import ROOT

from jaxproto import config
from jaxproto.config.presets import DATASETS
from jaxproto.experiment import build
from jaxproto.experiment.local_training import build_local_training
from jaxproto.papers.variants import READINGS
from jaxproto.storage import default_workdir


def test_every_reading_holds_for_every_data_set():
    def check(name, reading, dataset):
        c = config.load(f"configs/{name}.py:{dataset},{reading}")
        config.check(c)
        if dataset in ("digits", "cifar10"):
            before = config.load(f"configs/{name}.py:{reading},{dataset}")
            assert config.flatten(before) == config.flatten(c)

    there = [(name, reading) for name, known in READINGS.items() for reading in known]
    assert {reading for _, reading in there} == {"paper", "code"}
    check_every([(*pair, dataset) for pair in there for dataset in DATASETS], check)


def test_the_code_differs_from_the_paper_in_the_places_that_are_known():
    """n_ij of the pooled data: mu times 4/3 for counts of three quarters of them."""
    names = (f"configs/protonorm.py:cifar10,{v}" for v in ("code", "paper"))
    code, paper = map(config.load, names)
    lines = config.differences(config.flatten(paper), config.flatten(code))
    differing = {line.split(":")[0] for line in lines}
    method = {f"method.{k}" for k in ["collect", "initial", "lam", "reg", "upscale"]}
    assert differing == {"local.order", "local.short", "model.group", *method}
    assert (code.method.upscale, paper.method.upscale) == (80.0, 100.0)
    assert config.load("configs/protonorm.py:cifar100,code").method.upscale == 200.0
    plain = config.load("configs/tinyproto.py:cifar10,ft")
    code = config.load("configs/tinyproto.py:cifar10,code,ft")
    assert code.method.mu == pytest.approx(plain.method.mu * 4 / 3)
    assert code.method.collect == "before_training"  # its clients are FedTGP's
    code = config.load("configs/fednh.py:cifar10,code")  # `pfllib` has no min_size
    assert (code.data.partition, code.data.min_size) == ("dirichlet", 10)


def test_the_paper_of_protonorm_weighs_its_pull_by_one():
    for dataset in ("digits", "spiral", "fashion_mnist"):
        assert config.load(f"configs/protonorm.py:{dataset},paper").method.lam == 1.0


RELEASED = {  # method -> clients, rounds, epochs, batch, momentum, rate in round 3
    "fedprox": (20, 200, 20, 10, 0.0, 0.01),
    "fednova": (16, 100, 2, 32, 0.9, 0.02),
    "fednh": (100, 200, 5, 64, 0.9, 0.01 * 0.99**3),
    "feduv": (10, 100, 10, 128, 0.9, 0.005 * (1 + np.cos(0.03 * np.pi))),
    "vhl": (10, 1000, 1, 128, 0.9, 0.01 * 0.992**3),
    "fast": (100, 1000, 1, 128, 0.9, 0.01),
}


@every(RELEASED.items())
def test_the_released_training_is_a_variant(name, want):
    c = config.load(f"configs/{name}.py:cifar10,code")
    config.check(c)
    build.build_sampler(c.participation)
    rate = c.optimizer.learning_rate * build_local_training(c).at_round(3).factor
    local = (c.local.epochs, c.local.batch_size, c.optimizer.momentum)
    got = (c.data.clients, c.rounds, *local, float(rate))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    if name == "fednh":  # ProtoNorm's fork starts every network at scale 1
        c = config.load("configs/fednh.py:cifar10,resnet")
        assert (c.model.group, c.method.scale) == ("resnet18_gn", 20.0)
        assert config.load("configs/fednh.py:cifar10").method.scale == 1.0


def test_print_config_says_value_origin_and_choices(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)

    def command(*arguments):
        return called(*arguments), *capsys.readouterr()

    given = (
        "--config=configs/protonorm.py:spiral,paper",
        "--config.rounds=7",
        "--print_config",
    )
    code, out, _ = command("run", *given)
    lines = dict(zip(out.splitlines()[::2], out.splitlines()[1::2], strict=True))
    regularizers = lines["method.reg = l2_of_means  (reading paper)"]
    assert not code and regularizers.endswith("; l2_of_means | mse_mean | sq_l2_mean")
    assert {
        "rounds = 7  (command line)",
        "model.feat_dim = 2  (preset spiral)",
        "method.upscale = 10.0  (configs/protonorm.py)",
        "data.train_share = 0.75  (default)",
    } <= {*lines}
    given = "--config=configs/fedavg.py:cifar10,refprotofl", "--print_config"
    lines = command("run", *given)[1].splitlines()
    assert "rounds = 50  (configs/fedavg.py)" in lines  # the preset has 300


def test_a_reading_is_in_the_name_of_the_folder():
    def default(file, **fields):
        made = changed(config.load(file), **fields)
        plain = config.unmodified_config(file)
        return str(default_workdir.default_workdir(made, plain))

    found = default("protonorm:spiral,code", seed=3, method__lam=2.0)
    assert found == "runs/protonorm-spiral-seed3-code-method.lam=2"
    # A cell of another kind of file is its own plain one.
    for file in ("comparison:tinyproto_ft,paper", "table"):
        assert default(file) == str(default_workdir.default_workdir(config.load(file)))


def test_methods_of_two_phases_have_one_epoch_in_the_comparison():
    for name in ("fedmd", "fedpac", "fedrep"):
        assert config.load(f"configs/comparison.py:{name}").local.epochs == 1
