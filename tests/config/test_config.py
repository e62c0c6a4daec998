"""Configurations: presets, overrides, and every mistake named before training."""

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from support import toys
from support.every import check_every

import jaxproto
from jaxproto import config, federation
from jaxproto.errors import UserError
from jaxproto.experiment import shape_checks
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


def test_fields_that_do_not_go_together_and_missing_ones_are_named(refused):
    message = refused(changed(method__name="local"))
    assert "unknown field of method 'local': " in message
    c = changed()
    del c.optimizer.clip_norm
    assert "the configuration lacks optimizer.clip_norm; start from" in refused(c)
    assert "lacks local.batch_size, " in refused(changed(local=5))
    assert "lacks method.name" in refused(changed({"method": "local"}))
    with pytest.raises(UserError, match=r"'config\.rounds' is a value and has no"):
        config.check_keys(config.default(), ["rounds.x"])
    c = changed(optimizer__name="adam", optimizer__momentum=0.9)
    assert "optimizer.momentum is 0.9, but 'adam' takes none" in refused(c)
    c = changed(participation__fraction=0.5)
    assert "set participation.law to uniform" in refused(c)
    c = changed(local__short="skip", local__batch_size=1000, model__group="mlp")
    message = refused(c)
    assert "no client would train: local.batch_size is 1000, but the largest" in message
    assert "local.short to wrap" in message


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


ONE_CLASS = {"data.clients": 3, "data.classes_per_client": 1}
SPLIT = {"data.partition": "pathological"}
NO_FIT = (  # fields, and what is said; of unknown names see also support/bad_rows.py
    ({"method.name": "protnorm"}, "method 'protnorm'. Did you mean 'protonorm'? There"),
    ({"participation.law": "uniformly"}, "unknown participation.law 'uniformly'. Did "),
    (
        {"method.reg": "l2"},
        "unknown method.reg 'l2'. There are: l2_of_means, mse_mean, sq",
    ),
    ({"method.lma": 1.0}, "field of method 'protonorm': 'lma'. Did you mean 'lam'?"),
    ({"data.aplha": 0.1}, "field of 'config.data': 'aplha'. Did you mean 'alpha'?"),
    ({"round": 1}, "unknown field of 'config': 'round'. Did you mean 'rounds'?"),
    ({"data.clients": 100, "data.min_size": 20}, "need 2000 examples, but there"),
    ({"data.clients": 600, "data.min_size": 1}, "gets 0 training and "),
    ({"data.seed": -2}, "data.seed is -2; it must be from 0 to 2**32 - 1, or follow"),
    ({"data.pool": False}, "'digits' has no official test part"),
    ({**SPLIT, "data.classes_per_client": 11}, "client is 11, but only 10 classes"),
    ({**SPLIT, **ONE_CLASS}, "hold 3 classes, but 10 have examples"),
    (
        {"data.name": "tfds:mnist", "data.data_dir": "/no"},
        "no prepared data set in /no",
    ),
    ({"model.group": "spiral_mlp"}, "'spiral_mlp' takes inputs of shape"),
    ({"data.name": "spiral", "model.group": "mlp,resnet4"}, "'resnet4' takes images"),
    *(
        (
            {"clients_at_once": value},
            f"clients_at_once is {value!r}; it is auto, one, a",
        )
        for value in ("0", "-1", "two", "1.5", "²", "")
    ),
)


def test_names_data_and_networks_that_do_not_fit_are_named(refused):
    def check(fields, message):
        assert message in refused(changed({"data.clients": 4, **fields}))

    check_every(NO_FIT, check)


def test_features_that_differ_between_cohorts_are_named_with_both_sizes():
    cohorts = [
        federation.Cohort("narrow", toys.net(8), (0, 1)),
        federation.Cohort("wide", toys.net(8, Spec(5, 12)), (2,)),
    ]
    x = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32)
    method = METHODS["fedproto"](toys.SPEC)
    with pytest.raises(UserError, match=r"'wide' has feature dimension 12, .* has 8"):
        shape_checks.check_cohorts(method, cohorts, toys.SPEC, x)
    cohorts[1] = federation.Cohort("wide", toys.net(8, Spec(7, 8)), (2,))
    with pytest.raises(UserError, match=r"'wide' has number of classes 7, .* has 5"):
        shape_checks.check_cohorts(method, cohorts, toys.SPEC, x)
