"""Configurations: presets, overrides, and every mistake named before training."""

import re

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from support import toys

import jaxproto
from jaxproto import config, federation, fit
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
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
        ("rounds", 0, "is 0; it must be at least 1 and below 2**31."),
        ("eval_every", 0, "is 0; it must be at least 1 and below 2**31."),
        ("checkpoint_every", 0, "is 0; it must be at least 1 and below 2**31."),
        ("data.clients", 0, "is 0; it must be at least 1 and below 2**31."),
        ("model.feat_dim", 0, "is 0; it must be at least 1 and below 2**31."),
        ("local.epochs", 0, "is 0; it must be from 1 to 10,000."),
        ("local.batch_size", 0, "is 0; it must be at least 1 and below 2**31."),
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
        (
            {"data__alpha": 0.0},
            "data.alpha is 0.0; it must be above 0 and at most 1e6.",
        ),
        ({"data__min_size": 1}, r"gets 1 training and 0 test|gets 0 training"),
        (
            {"data__train_share": 1.0},
            "data.train_share is 1.0; it must be above 0 and below 1.",
        ),
        (
            {"data__seed": -2},
            "data.seed is -2; it must be from 0 to 2..32 - 1, or follow",
        ),
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
        fit.check_cohorts(method, cohorts, toys.SPEC, x)
    cohorts[1] = cohorts[1]._replace(net=toys.net(8, Spec(7, 8)))
    with pytest.raises(UserError, match=r"'wide' has number of classes 7, .* has 5"):
        fit.check_cohorts(method, cohorts, toys.SPEC, x)
