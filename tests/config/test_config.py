"""Configurations: presets, overrides, and every mistake named before training."""

import re

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from support import toys
from support.every import check_every

import jaxproto
from jaxproto import config, federation, fit
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.types import Spec


def changed(fields=(), **more):
    """A configuration with flat fields, even of a wrong type; in `more` __ is a dot."""
    tree = config.experiment("protonorm", "digits").to_dict()
    more = {path.replace("__", "."): value for path, value in more.items()}
    for path, value in {**dict(fields), **more}.items():
        *parents, key = path.split(".")
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


LAWS = "all, beta, circular, cyclic, gamma, random_count, uniform, weibull."
UNKNOWN = (  # field, value, what is said of it, what was meant, the first there is
    ("method.name", "protnorm", "method 'protnorm'", "protonorm", "cps_p"),
    ("data.name", "digit", "data set 'digit'", "digits", "csv:PATH, dig"),
    ("data.name", "npzz:x", "data set prefix 'npzz'", "npz", "csv, fold"),
    ("model.group", "resnet44", "network or group 'resnet44'", "resnet4", ""),
    ("model.group", "mlp,cnn5", "network 'cnn5'", "cnn4", "cnn4, "),
    ("data.partition", "dirichelt", "partition 'dirichelt'", "dirichlet", "di"),
    ("optimizer.name", "adamm", "optimizer 'adamm'", "adam", "adabelief, "),
    (
        "participation.law",
        "uniformly",
        "participation.law 'uniformly'",
        "uniform",
        LAWS,
    ),
    ("local.order", "fix", "local.order 'fix'", "fixed", "fixed, shuffl"),
    ("local.short", "wrapp", "local.short 'wrapp'", "wrap", "skip, wrap."),
    ("local.optimizer_state", "kept", "local.optimizer_state 'kept'", "keep", "ke"),
    ("method.reg", "l2", "method.reg 'l2'", "", "l2_of_means, mse_mean, sq_l2_mean."),
    ("method.lma", 1.0, "field of method 'protonorm': 'lma'", "lam", ""),
    ("data.aplha", 0.1, "field of 'config.data': 'aplha'", "alpha", ""),
    ("round", 1, "field of 'config': 'round'", "rounds", ""),
)


def test_an_unknown_name_is_told_with_what_was_meant_and_what_exists(refused):
    def check(path, value, what, meant, first):
        message = refused(changed({path: value}))
        guess = f"Did you mean {meant!r}? " if meant else ""
        assert f"unknown {what}. {guess}There are: {first}" in message

    check_every(UNKNOWN, check)


def test_fields_of_another_method_and_missing_ones_are_named(refused):
    message = refused(changed(method__name="local"))
    assert "unknown field of method 'local': " in message
    c = changed()
    del c.optimizer.clip_norm
    assert "the configuration lacks optimizer.clip_norm; start from" in refused(c)
    assert "lacks local.batch_size, " in refused(changed(local=5))
    assert "lacks method.name" in refused(changed({"method": "local"}))
    with pytest.raises(UserError, match=r"'config\.rounds' is a value and has no"):
        config.check_keys(config.default(), ["rounds.x"])


RATE, MOMENTUM = "optimizer.learning_rate", "optimizer.momentum"
COUNTS = (
    "rounds eval_every checkpoint_every data.clients model.feat_dim local.batch_size"
)
NAN, INFINITE, DROPOUT = float("nan"), float("inf"), "participation.dropout"
MUST_BE = {
    "a whole number.": [("rounds", value) for value in ("five", 2.5, True, None)],
    "True or False.": [("data.pool", 1)],
    "a text.": [("data.name", 3), ("clients_at_once", 4), ("method.reg", np.mean)],
    "a number.": [("method.lam", "1"), ("method.lam", False)],
    "finite.": [("method.lam", NAN), (RATE, NAN), (RATE, INFINITE)],
    "above 0.": [(RATE, 0.0), (RATE, -0.1)],
    "at least 0 and below 1.": [(DROPOUT, 1.5), (DROPOUT, -0.1), (MOMENTUM, 1.0)],
    "0 (off) or more.": [
        (f"optimizer.{k}", -1.0) for k in ("weight_decay", "clip_norm")
    ],
    "from 0 to 2**32 - 1.": [("seed", -1), ("seed", 2**32)],
    "at least 1 and below 2**31.": [(path, 0) for path in COUNTS.split()],
    "from 1 to 10,000.": [("local.epochs", 0)],
    "above 0 and at most 1.": [("participation.fraction", v) for v in (0.0, 1.5)],
}


def test_an_impossible_value_is_named_with_what_it_must_be():
    def check(path, value, words):
        with pytest.raises(UserError) as e:
            config.check(changed({path: value}))
        assert str(e.value) == f"{path} is {value!r}; it must be {words}"

    check_every([(*c, words) for words, cs in MUST_BE.items() for c in cs], check)


def test_clients_at_once_must_be_a_number_or_a_name(refused):
    def check(value):
        message = refused(changed(clients_at_once=value))
        assert f"clients_at_once is {value!r}; it is auto, one, all or a nu" in message

    check_every(["0", "-1", "two", "1.5", "²", ""], check)


def test_momentum_is_for_sgd_and_a_fraction_for_a_lottery(refused):
    c = changed(optimizer__name="adam", optimizer__momentum=0.9)
    assert "optimizer.momentum is 0.9, but 'adam' takes none" in refused(c)
    c = changed(participation__fraction=0.5)
    assert "set participation.law to uniform" in refused(c)


ONE_CLASS = {"data.clients": 3, "data.classes_per_client": 1}
SPLIT = {"data.partition": "pathological"}
NO_FIT = (  # fields, and what is said
    ({"data.clients": 100, "data.min_size": 20}, "need 2000 examples, but there"),
    (
        {"data.clients": 600, "data.min_size": 1},
        r"gets (1 training and 0 te|0 training)",
    ),
    ({"data.alpha": 0.0}, "data.alpha is 0.0; it must be above 0 and at most 1e6."),
    ({"data.train_share": 1.0}, "train_share is 1.0; it must be above 0 and below 1."),
    ({"data.seed": -2}, "data.seed is -2; it must be from 0 to 2..32 - 1, or follow"),
    ({"data.pool": False}, "'digits' has no official test part"),
    ({**SPLIT, "data.classes_per_client": 11}, "client is 11, but only 10 classes"),
    ({**SPLIT, **ONE_CLASS}, "hold 3 classes, but 10 have examples"),
    ({"data.name": "npz:/nowhere.npz"}, "npz:/nowhere.npz: no such file"),
    (
        {"data.name": "tfds:mnist", "data.data_dir": "/no"},
        "no prepared data set in /no",
    ),
    ({"model.group": "spiral_mlp"}, "'spiral_mlp' takes inputs of shape"),
    ({"data.name": "spiral", "model.group": "mlp,resnet4"}, "'resnet4' takes images"),
)


def test_data_and_networks_that_do_not_fit_are_named(refused):
    def check(fields, message):
        assert re.search(message, refused(changed({"data.clients": 4, **fields})))

    check_every(NO_FIT, check)


def test_bad_examples_in_an_npz_file_are_named(refused, tmp_path):
    good = {"x_train": np.zeros((30, 4)), "y_train": np.arange(30) % 3}

    def check(name, array, message):
        np.savez(tmp_path / "bad.npz", **{**good, name: array})
        c = changed(data__name=f"npz:{tmp_path / 'bad.npz'}", model__group="mlp")
        assert message in refused(c)

    bad = (
        ("y_train", np.full(30, 0.5), "y_train has type float64, but labels are int"),
        ("y_train", np.arange(30) - 1, "y_train has label -1 in row 0"),
        ("x_train", np.full((30, 4), np.nan), "x_train has a NaN or infinite value"),
        ("x_train", np.full((30, 4), np.inf), "x_train has a NaN or infinite value"),
        ("y_train", np.zeros(29, int), "x_train has 30 examples but y_train has 29"),
    )
    check_every(bad, check)


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
    cohorts[1] = federation.Cohort("wide", toys.net(8, Spec(7, 8)), (2,))
    with pytest.raises(UserError, match=r"'wide' has number of classes 7, .* has 5"):
        fit.check_cohorts(method, cohorts, toys.SPEC, x)
