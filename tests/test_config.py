"""Configurations: presets, overrides, and every mistake named before training."""

import inspect
import json
import math
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
import pytest
import toys

import jaxproto
from jaxproto import build, config, federation, models, optimizers, workdir
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.options import OPTIONS
from jaxproto.presets import DATASETS
from jaxproto.types import Spec


def changed(method="protonorm", arg="digits", **fields):
    """A configuration with flat fields, __ for a dot, even of a wrong type."""
    c = config.experiment(method, arg)
    tree = c.to_dict()
    for path, value in fields.items():
        *parents, key = path.split("__")
        node = tree
        for parent in parents:
            node = node[parent]
        node[key] = value
    return ml_collections.ConfigDict(tree)


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Runs what cannot work; the message, after a look at what is left behind."""
    monkeypatch.setenv("JAXPROTO_CACHE", "off")

    def run(c):
        with pytest.raises(UserError) as e:
            jaxproto.run(c, tmp_path / "run")
        left = {p.name for p in (tmp_path / "run").glob("*")}
        assert left <= {".lock"}  # nothing that blocks the corrected command
        return str(e.value)

    return run


# Presets


@pytest.mark.parametrize("file", METHODS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_config_file_holds_for_every_data_set(file, dataset):
    c = config.load(f"configs/{file}.py:{dataset}")
    config.check(c)
    assert c.name == c.method.name == file
    names = build.network_names(c.model.group)
    assert set(names) <= set(models.NETS)


def test_variants_apply_after_the_data_set_in_any_order():
    variants = {"mine": {"rounds": 7}, "spiral": {"seed": 5}}
    for arg in ("spiral,mine", "mine,spiral"):
        c = config.experiment("local", arg, variants)
        assert (c.rounds, c.seed, c.data.name) == (7, 5, "spiral")


def test_without_an_argument_the_data_set_is_digits():
    assert config.flat(config.load("configs/protonorm.py")) == config.flat(
        config.load("configs/protonorm.py:digits")
    )


def test_the_code_preset_differs_from_the_paper_in_the_register_entries():
    code, paper = (
        config.load(f"configs/protonorm.py:spiral,{v}") for v in ("code", "paper")
    )
    lines = config.differences(config.flat(paper), config.flat(code))
    assert {line.split(":")[0] for line in lines} == {
        "local.order",
        "local.short",
        "method.collect",
        "method.lam",
        "method.reg",
    }


def test_a_method_brings_its_own_hyper_parameters_and_options():
    fields = config.method_fields("protonorm")
    assert fields["reg"] == "l2_of_means" and fields["alignment"] == "thomson"
    assert isinstance(fields["upscale"], float)
    assert config.method_fields("local") == {"name": "local"}


@pytest.mark.parametrize("name", METHODS)
def test_defaults_of_options_are_the_defaults_of_the_method(name):
    spec = Spec(5, 8)
    for key, p in inspect.signature(METHODS[name]).parameters.items():
        if key in OPTIONS:
            assert next(iter(OPTIONS[key].values()))(spec) is p.default


def test_a_saved_configuration_is_equal_to_the_one_in_memory():
    c = changed(rounds=3)
    assert config.flat(json.loads(c.to_json())) == config.flat(c)


def test_whole_numbers_do_for_floats():
    config.check(changed(method__upscale=10, optimizer__learning_rate=1))


def test_differences_name_fields_on_either_side():
    lines = config.differences({"a": 1, "b": 2}, {"b": 3, "c": 4})
    assert lines == [
        "a: 1 there, 'absent' here",
        "b: 2 there, 3 here",
        "c: 'absent' there, 4 here",
    ]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("digits", "run-digits-seed0"),
        ("tfds:fashion_mnist", "run-fashion_mnist-seed0"),
        ("tfds:a/b:3.0.1", "run-a_b_3.0.1-seed0"),
        ("npz:/data/my set.npz", "run-my_set-seed0"),
    ],
)
def test_the_default_folder_is_named_by_config_data_and_seed(name, folder):
    c = config.default()
    c.data.name = name
    assert str(workdir.default(c)) == f"runs/{folder}"


# Names that do not exist


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"method__name": "protnorm"},
            "unknown method 'protnorm'. Did you mean 'protonorm'? There are: cps_p",
        ),
        (
            {"data__name": "digit"},
            "unknown data set 'digit'. Did you mean 'digits'? There are: csv:PATH, dig",
        ),
        (
            {"data__name": "npzz:x"},
            "unknown data set prefix 'npzz'. Did you mean 'npz'? There are: csv, fold",
        ),
        (
            {"model__group": "resnet44"},
            "unknown network or group 'resnet44'. Did you mean 'resnet4'? There are: ",
        ),
        (
            {"model__group": "mlp,cnn5"},
            "unknown network 'cnn5'. Did you mean 'cnn4'? There are: cnn4, ",
        ),
        (
            {"data__partition": "dirichelt"},
            "unknown partition 'dirichelt'. Did you mean 'dirichlet'? There are: di",
        ),
        (
            {"optimizer__name": "adamm"},
            "unknown optimizer 'adamm'. Did you mean 'adam'? There are: adabelief, ",
        ),
        (
            {"participation__law": "uniformly"},
            "unknown participation.law 'uniformly'. Did you mean 'uniform'? There are: "
            "all, beta, circular, cyclic, gamma, random_count, uniform, weibull.",
        ),
        (
            {"local__order": "fix"},
            "unknown local.order 'fix'. Did you mean 'fixed'? There are: fixed, shuffl",
        ),
        (
            {"local__short": "wrapp"},
            "unknown local.short 'wrapp'. Did you mean 'wrap'? There are: skip, wrap.",
        ),
        (
            {"local__optimizer_state": "kept"},
            "unknown local.optimizer_state 'kept'. Did you mean 'keep'? There are: ke",
        ),
        (
            {"method__reg": "l2"},
            "unknown method.reg 'l2'. There are: l2_of_means, mse_mean, sq_l2_mean.",
        ),
        (
            {"method__lma": 1.0},
            "unknown field of method 'protonorm': 'lma'. Did you mean 'lam'? There are",
        ),
        (
            {"data__aplha": 0.1},
            "unknown field of 'config.data': 'aplha'. Did you mean 'alpha'? There are",
        ),
        ({"round": 1}, "unknown field of 'config': 'round'. Did you mean 'rounds'?"),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_an_unknown_name_lists_what_exists(refused, fields, message):
    assert message in refused(changed(**fields))


def test_fields_of_another_method_are_refused_by_its_name(refused):
    message = refused(changed(method__name="local"))
    assert "unknown field of method 'local': " in message


def test_a_missing_field_is_named(refused):
    c = changed()
    del c.optimizer.clip_norm
    assert "the configuration lacks optimizer.clip_norm; start from" in refused(c)
    assert "lacks local.batch_size, " in refused(changed(local=5))
    c = ml_collections.ConfigDict({**changed().to_dict(), "method": "local"})
    assert "lacks method.name" in refused(c)


def test_a_field_below_a_value_is_refused():
    with pytest.raises(UserError, match=r"'config\.rounds' is a value and has no"):
        config.check_keys(config.default(), ["rounds.x"])


# Values that cannot be


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("rounds", "five", "is 'five'; it must be a whole number."),
        ("rounds", 2.5, "is 2.5; it must be a whole number."),
        ("rounds", True, "is True; it must be a whole number."),
        ("rounds", None, "is None; it must be a whole number."),
        ("data.pool", 1, "is 1; it must be True or False."),
        ("data.name", 3, "is 3; it must be a text."),
        ("method.lam", "1", "is '1'; it must be a number."),
        ("method.lam", False, "is False; it must be a number."),
        ("method.reg", np.mean, "it must be a text."),
        ("method.lam", float("nan"), "is nan; it must be finite."),
        ("clients_at_once", 4, "is 4; it must be a text."),
        ("optimizer.learning_rate", float("nan"), "is nan; it must be finite."),
        ("optimizer.learning_rate", float("inf"), "is inf; it must be finite."),
        ("optimizer.learning_rate", 0.0, "is 0.0; it must be above 0."),
        ("optimizer.learning_rate", -0.1, "is -0.1; it must be above 0."),
        ("optimizer.momentum", 1.0, "is 1.0; it must be at least 0 and below 1."),
        ("optimizer.weight_decay", -1.0, "is -1.0; it must be 0 (off) or more."),
        ("optimizer.clip_norm", -1.0, "is -1.0; it must be 0 (off) or more."),
        ("seed", -1, "is -1; it must be from 0 to 2**32 - 1."),
        ("seed", 2**32, "is 4294967296; it must be from 0 to 2**32 - 1."),
        ("rounds", 0, "is 0; it must be at least 1."),
        ("eval_every", 0, "is 0; it must be at least 1."),
        ("checkpoint_every", 0, "is 0; it must be at least 1."),
        ("data.clients", 0, "is 0; it must be at least 1."),
        ("model.feat_dim", 0, "is 0; it must be at least 1."),
        ("local.epochs", 0, "is 0; it must be at least 1."),
        ("local.batch_size", 0, "is 0; it must be at least 1."),
        ("participation.fraction", 0.0, "is 0.0; it must be above 0 and at most 1."),
        ("participation.fraction", 1.5, "is 1.5; it must be above 0 and at most 1."),
        ("participation.dropout", 1.5, "is 1.5; it must be at least 0 and below 1."),
        ("participation.dropout", -0.1, "is -0.1; it must be at least 0 and below 1."),
    ],
)
def test_an_impossible_value_is_named_with_what_it_must_be(path, value, words):
    with pytest.raises(UserError) as e:
        config.check(changed(**{path.replace(".", "__"): value}))
    assert str(e.value).startswith(f"{path} is ") and str(e.value).endswith(words)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²", ""])
def test_clients_at_once_must_be_a_number_or_a_name(refused, value):
    message = refused(changed(clients_at_once=value))
    assert f"clients_at_once is {value!r}; it is auto, one, all or a number" in message


def test_momentum_is_for_sgd_only(refused):
    c = changed(optimizer__name="adam", optimizer__momentum=0.9)
    assert "optimizer.momentum is 0.9, but 'adam' takes none" in refused(c)


def test_a_fraction_without_a_lottery_is_refused(refused):
    c = changed(participation__fraction=0.5)
    assert "set participation.law to uniform" in refused(c)


# Data and networks that do not fit


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data__clients": 100, "data__min_size": 20}, "need 2000 examples, but there"),
        ({"data__alpha": 0.0}, "alpha is 0.0, but must be above 0"),
        ({"data__min_size": 1}, r"gets 1 training and 0 test|gets 0 training"),
        ({"data__train_share": 1.0}, "train_share is 1.0. Give a number between"),
        ({"data__seed": -1}, "the data seed is -1"),
        ({"data__pool": False}, "'digits' has no official test part"),
        (
            {"data__partition": "pathological", "data__classes_per_client": 11},
            "classes_per_client is 11, but only 10 classes",
        ),
        (
            {
                "data__partition": "pathological",
                "data__classes_per_client": 1,
                "data__clients": 3,
            },
            "hold 3 classes, but 10 have examples",
        ),
        ({"data__name": "npz:/nowhere.npz"}, "npz:/nowhere.npz: no such file"),
        (
            {"data__name": "tfds:mnist", "data__data_dir": "/nowhere"},
            "no prepared data set in /nowhere",
        ),
        ({"model__group": "spiral_mlp"}, "'spiral_mlp' takes inputs of shape"),
        (
            {"data__name": "spiral", "model__group": "mlp,resnet4"},
            "network 'resnet4' takes images",
        ),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_data_and_networks_that_do_not_fit_are_named(refused, fields, message):
    fields = {"data__clients": 600 if "data__min_size" in fields else 4, **fields}
    assert re.search(message, refused(changed(**fields)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y_train": np.full(30, 0.5)}, "y_train has type float64, but labels are int"),
        ({"y_train": np.arange(30) - 1}, "y_train has label -1 in row 0"),
        ({"x_train": np.full((30, 4), np.nan)}, "x_train has a NaN or infinite value"),
        ({"x_train": np.full((30, 4), np.inf)}, "x_train has a NaN or infinite value"),
        ({"y_train": np.zeros(29, int)}, "x_train has 30 examples but y_train has 29"),
    ],
)
def test_bad_examples_in_an_npz_file_are_named(refused, tmp_path, arrays, message):
    good = {"x_train": np.zeros((30, 4)), "y_train": np.arange(30) % 3}
    np.savez(tmp_path / "bad.npz", **{**good, **arrays})
    c = changed(data__name=f"npz:{tmp_path / 'bad.npz'}", model__group="mlp")
    assert message in refused(c)


def test_a_federation_in_which_nobody_would_train_is_refused(refused):
    c = changed(local__short="skip", local__batch_size=1000, model__group="mlp")
    message = refused(c)
    assert "no client would train: local.batch_size is 1000, but the largest" in message
    assert "local.short to wrap" in message


def test_features_that_differ_between_cohorts_are_named_with_both_sizes():
    cohorts = [
        federation.Cohort("narrow", toys.net(8), (0, 1)),
        federation.Cohort("wide", toys.net(8, Spec(5, 12)), (2,)),
    ]
    x = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32)
    method = METHODS["fedproto"](toys.SPEC)
    with pytest.raises(UserError, match=r"'wide' has feature dimension 12, .* has 8"):
        federation.check_cohorts(method, cohorts, toys.SPEC, x)
    cohorts[1] = cohorts[1]._replace(net=toys.net(8, Spec(7, 8)))
    with pytest.raises(UserError, match=r"'wide' has number of classes 7, .* has 5"):
        federation.check_cohorts(method, cohorts, toys.SPEC, x)


# From names to functions


def optimizer(**fields):
    defaults = config.default().optimizer.to_dict()
    return optimizers.build_optimizer(SimpleNamespace(**{**defaults, **fields}))


def moved(opt, param, grad, steps=1):
    """The parameter after some steps along one gradient."""
    state = opt.init(param)
    for _ in range(steps):
        move, state = opt.update(grad, state, param)
        param = optax.apply_updates(param, move)
    return np.asarray(param)


def schedule(**fields):
    made = config.default().optimizer
    made.update(fields)
    return optimizers.build_schedule(made, rounds=10)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, [1, 1, 1]),
        ({"schedule": "exponential", "decay": 0.992}, [1, 0.992, 0.992**9]),
        ({"schedule": "cosine"}, [1, (1 + math.cos(math.pi / 10)) / 2, 0.0244717]),
    ],
)
def test_a_schedule_is_a_factor_for_each_round(fields, want):
    found = schedule(**fields)
    assert np.allclose([found(jnp.int32(r)) for r in (0, 1, 9)], want)


def test_a_decay_that_nothing_would_use_is_refused():
    with pytest.raises(UserError, match=r"decay is 0.9, but .* 'constant' does not"):
        schedule(decay=0.9)
    with pytest.raises(UserError, match=r"unknown optimizer.schedule 'cosinus'"):
        schedule(schedule="cosinus")


def test_the_default_is_plain_sgd():
    p, g = jnp.array([1.0, -2.0]), jnp.array([3.0, 4.0])
    assert np.allclose(moved(optimizer(), p, g), p - 0.01 * g)


def test_clipping_comes_before_decay_and_both_before_momentum():
    """v <- m v + (g / max(1, |g|) + w p), p <- p - eta v, as PyTorch's SGD."""
    opt = optimizer(momentum=0.9, weight_decay=0.1, clip_norm=1.0, learning_rate=0.5)
    p, g = np.array([1.0, -2.0], np.float32), np.array([3.0, 4.0], np.float32)
    want, v = p.copy(), 0
    for _ in range(3):
        v = 0.9 * v + (g / 5 + 0.1 * want)
        want = want - 0.5 * v
    assert np.allclose(moved(opt, jnp.asarray(p), jnp.asarray(g), 3), want, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Specifying a key", "ignore:.*is deprecated")
@pytest.mark.parametrize("name", optimizers.optimizers())
def test_every_optimizer_on_the_list_takes_a_learning_rate_alone(name):
    def step(param):
        opt = optimizer(name=name)
        return opt.update(param, opt.init(param), param)[0]

    param = {"w": jax.ShapeDtypeStruct((3, 2), jnp.float32)}
    assert jax.eval_shape(step, param)["w"].shape == (3, 2)


def test_clients_take_the_networks_of_a_group_in_turn():
    c = changed(data__clients=5, model__group="mlp,cnn4_d", data__alpha=10.0)
    exp = build.experiment(c, "cpu")
    assert [(k.name, sorted(k.ids)) for k in exp.cohorts] == [
        ("mlp", [0, 2, 4]),
        ("cnn4_d", [1, 3]),
    ]
    for cohort, shards in zip(exp.cohorts, exp.train, strict=True):
        for k, i in enumerate(cohort.ids):
            rows = np.asarray(shards.index[k])[: int(shards.size[k])]
            assert np.array_equal(rows, exp.partition.train[i])


def test_a_group_larger_than_the_federation_leaves_networks_out():
    c = changed(data__clients=1, model__group="mlp,cnn4_d")
    assert [k.name for k in build.experiment(c, "cpu").cohorts] == ["mlp"]


@pytest.mark.parametrize("choice", ["auto", "one", "all", "2"])
@pytest.mark.parametrize("steps_K", [[5, 3, 1], [0, 0]])
def test_a_form_is_found_for_any_number_of_steps(choice, steps_K):
    for platform in ("cpu", "gpu"):
        build.build_form(choice, platform, steps_K)


# Files and flags


def test_a_file_that_does_not_exist_is_answered_with_those_that_do():
    with pytest.raises(UserError, match=r"Did you mean 'protonorm\.py'\? There are: "):
        config.load("configs/protonrom.py")


@pytest.mark.parametrize(
    ("text", "why"), [("x = 1", "defines no get_config"), ("two words", "not Python")]
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text, why):
    (tmp_path / "c.py").write_text(text)
    with pytest.raises(UserError, match=rf"c\.py is no configuration file: .*{why}"):
        config.load(str(tmp_path / "c.py"))


def test_an_unknown_preset_lists_data_sets_and_variants():
    with pytest.raises(UserError, match=r"'spirall'\. Did you mean 'spiral'.*code, "):
        config.load("configs/protonorm.py:spirall")


@pytest.mark.parametrize(
    "flags",
    [
        ["--config=configs/protonorm.py", "--config.method.lma=1"],
        ["--config", "configs/protonorm.py", "--config.method.lma", "1"],
        ["-config=configs/protonorm.py:spiral", "-config.method.lma=1"],
        ["--config.method.lma=1", "--config=configs/protonorm.py"],
        ["--config=configs/protonorm.py", "--noconfig.method.lma"],
    ],
)
def test_a_wrong_field_among_flags_is_found_however_it_is_written(flags):
    with pytest.raises(UserError, match=r"'lma'\. Did you mean 'lam'"):
        config.check_flags(flags)


def test_right_flags_and_none_pass():
    config.check_flags([])
    config.check_flags(["--config"])
    config.check_flags(
        [
            "--config=configs/protonorm.py:spiral",
            "--config.method.lam=1",
            "--noconfig.data.pool",
            "--workdir",
            "config.nothing",
        ]
    )
