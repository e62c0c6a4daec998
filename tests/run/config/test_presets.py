"""Configurations by name: files, presets, variants, flags."""

from itertools import product

import pytest
from support.every import check_every
from support.refusal import refused

from jaxproto import config, models
from jaxproto.config import builtin
from jaxproto.config.presets import DATASETS
from jaxproto.core.types import Spec
from jaxproto.experiment import build, method_builder
from jaxproto.methods import METHODS
from jaxproto.methods.fedtgp import ServerTraining
from jaxproto.storage import default_workdir


def test_every_config_file_holds_for_every_data_set():
    """With the same clients and width for every method."""
    some, data = ("digits", "spiral", "fashion_mnist", "cifar10"), {}

    def check(file, dataset):
        c = config.load(f"configs/{file}.py:{dataset}")
        config.check(c)
        if dataset not in ("digits", "spiral"):
            shown = {k: v for k, v in c.data.items() if "public" not in k}
            assert data.setdefault(dataset, shown) == shown
            assert c.data.partition == "pfllib" and c.model.feat_dim == 500
        assert c.name == c.method.name == file
        networks = models.group_members(c.model.group)
        assert {*networks} <= {*models.NETS}
        assert len(networks) == 1 or "statistics" not in c.method  # they average them
        if dataset in some:  # a preset has one home
            assert config.flatten(config.experiment(file, dataset)) == config.flatten(c)

    check_every(product(METHODS, DATASETS), check)


def test_variants_apply_after_the_data_set_in_any_order_which_is_digits_at_first():
    variants = {"mine": {"rounds": 7}, "spiral": {"seed": 5}}
    for arg in ("spiral,mine", "mine,spiral"):
        c = config.experiment("local", arg, variants)
        assert (c.rounds, c.seed, c.data.name) == (7, 5, "spiral")
    without, digits = (f"configs/protonorm.py{preset}" for preset in ("", ":digits"))
    assert config.flatten(config.load(without)) == config.flatten(config.load(digits))
    c.data.name = "npz:/data/my set.npz"
    assert str(default_workdir.default_workdir(c)) == "runs/local-my_set-seed5"


def test_every_method_has_a_variant_with_few_training_examples():
    for file in ("protonorm.py:few", "local.py:few", "fedavg.py:few"):
        c, plain = config.load(f"configs/{file}"), config.load(f"configs/{file[:-4]}")
        assert (c.data.train_share, c.data.alpha) == (0.25, 0.5)
        c.data.train_share, c.data.alpha = 0.75, 0.1
        assert config.flatten(c) == config.flatten(plain)
    assert config.load("configs/fedproto.py:spiral,few").data.alpha == 0.5


def test_a_variant_takes_the_values_of_the_method_that_it_is_like(monkeypatch):
    def mine(spec, *, lam: float = 10.0, share: float = 0.5):
        raise NotImplementedError

    def by_counts(spec, *, lam: int = 10):
        raise NotImplementedError

    monkeypatch.setitem(METHODS, "mine", mine)
    monkeypatch.setitem(METHODS, "by_counts", by_counts)
    plain = config.flatten(config.experiment("mine"))
    like = config.flatten(config.experiment("mine", like="fedproto"))
    assert like == plain | {"method.lam": 1.28}
    variants = {"high": {"method.lam": 5.0}}
    high = config.experiment("mine", "spiral,high", variants, like="fedproto")
    assert (high.method.lam, high.method.share) == (5.0, 0.5)
    with refused("unknown method 'fedprot'. Did you mean 'fedproto'?"):
        config.experiment("mine", like="fedprot")
    with refused("method.lam of by_counts is 10 by default, and that of fedproto is 1"):
        config.experiment("by_counts", like="fedproto")


def test_methods_of_two_phases_have_an_epoch_for_each():
    for name in ("fedmd", "fedpac", "fedrep"):
        for dataset in ("digits", "fashion_mnist", "cifar10"):
            assert config.load(f"configs/{name}.py:{dataset}").local.epochs == 2


def test_every_pull_is_the_same_by_default_and_weighs_the_same_at_every_width():
    """One reading for all: squared error per element, lam 10 at 500 dimensions."""
    made = [config.method_fields(name) for name in METHODS]
    pulls = [f for f in made if "reg" in f or "pull" in f]
    found = {(f.get("reg", f.get("pull")), f["lam"]) for f in pulls}
    assert found == {("mse_mean", 10.0)} and len(pulls) == 6
    for dataset in ("digits", "spiral", "fashion_mnist"):
        c = config.load(f"configs/protonorm.py:{dataset}")
        assert c.method.lam / c.model.feat_dim == pytest.approx(10 / 500)
        assert config.load(f"configs/feddistill.py:{dataset}").method.lam == 1.0


def test_the_server_takes_as_many_at_once_as_the_clients_or_as_it_is_told(monkeypatch):
    c, seen = config.load("configs/fedtgp.py:digits"), []

    def fake(spec, *, training=ServerTraining(), **_):
        seen.append(training.server_batch)
        return METHODS["local"](spec)

    monkeypatch.setitem(build.METHODS, "fake", fake)
    c.method.name = "fake"
    for given in (0, 7):
        c.method.server_batch = given
        method_builder.build_method(c.method, Spec(10, 64), run=c)
    assert seen == [c.local.batch_size, 7]


def test_data_of_ones_own_do_not_get_the_settings_of_the_digits():
    given = ["--config=configs/protonorm.py", "--config.data.name=npz:a.npz"]
    neutral = config.apply_neutral_preset(given)[0]
    assert neutral == "--config=configs/protonorm.py:neutral"
    apart = ["--config", "configs/tinyproto.py:ft", "--config.data.name", "npz:a"]
    assert config.apply_neutral_preset(apart)[1] == "configs/tinyproto.py:ft,neutral"
    for same in (
        ["--config=configs/protonorm.py:digits", given[1]],
        ["--config=configs/protonorm.py", "--config.seed=1"],
        ["--config=configs/comparison.py", given[1]],  # knows no presets
    ):
        assert config.apply_neutral_preset(same) == same
    c = config.load("configs/protonorm.py:neutral")
    assert (c.optimizer.learning_rate, c.local.batch_size) == (0.01, 32)


def test_shipped_files_are_found_by_their_name_from_any_folder(tmp_path, monkeypatch):
    want = config.flatten(config.load("configs/fedproto.py:spiral"))
    monkeypatch.chdir(tmp_path)
    for file in ("configs/fedproto.py:spiral", "fedproto.py:spiral", "fedproto:spiral"):
        assert config.flatten(config.load(file)) == want
    (tmp_path / "fedproto.py").write_text(
        "import ml_collections\n"
        "def get_config():\n    return ml_collections.ConfigDict({'mine': 3})\n"
    )
    assert config.load("fedproto.py").mine == 3  # one's own comes first
    given = ["--config=fedproto:spiral", "--workdir=runs/fedproto:spiral"]
    path = f"{builtin.folder() / 'fedproto.py'}:spiral"
    assert config.resolve_paths(given) == [f"--config={path}", given[1]]
    path = builtin.folder() / "sweeps" / "clients.py"
    for file in ("sweeps/clients", "sweeps/clients.py", "configs/sweeps/clients.py"):
        assert builtin.find(f"{file}:digits") == f"{path}:digits"
