"""Configurations that are made in Python, and networks that do not fit each other.

What a user may type: `support/bad_rows.py`.
"""

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from support import toys
from support.refusal import refused

import jaxproto
from jaxproto import config, federation
from jaxproto.config.fields import nested
from jaxproto.errors import UserError
from jaxproto.experiment import shape_checks
from jaxproto.methods.fedproto import fedproto
from jaxproto.types import Spec


def changed(**fields):
    """A configuration with flat fields, even of a wrong type; __ for a dot."""
    flat = config.flatten(config.experiment("protonorm", "digits"))
    flat |= {path.replace("__", "."): value for path, value in fields.items()}
    return ml_collections.ConfigDict(nested(flat))


def test_missing_fields_and_those_of_another_method_are_named(tmp_path):
    lacking = changed()
    del lacking.optimizer.clip_norm
    for c, words in (
        (changed(method__name="local"), "unknown field of method 'local': "),
        (lacking, "the configuration lacks optimizer.clip_norm; start from"),
        (changed(local=5), "lacks local.batch_size, "),
        (changed(method="local"), "lacks method.name"),
    ):
        with refused(words):
            jaxproto.run(c, tmp_path / "run")
        left = {p.name for p in (tmp_path / "run").glob("*")}
        assert left <= {".lock"}  # nothing that blocks the corrected command


MUST_BE = {
    "a whole number.": [("rounds", value) for value in ("five", 2.5, True, None)],
    "True or False.": [("data__pool", 1)],
    "a text.": [("data__name", 3), ("clients_at_once", 4), ("method__reg", np.mean)],
    "a number.": [("method__lam", "1"), ("method__lam", False)],
    "finite.": [("method__lam", float("nan"))],
    "at least 1 and below 2**31.": [("data__clients", 0)],
}


def test_an_impossible_value_is_named_with_what_it_must_be():
    for words, cases in MUST_BE.items():
        for path, value in cases:
            with pytest.raises(UserError) as e:
                config.check(changed(**{path: value}))
            name = path.replace("__", ".")
            assert str(e.value) == f"{name} is {value!r}; it must be {words}"


def test_features_that_differ_between_cohorts_are_named_with_both_sizes():
    x, method = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32), fedproto(toys.SPEC)
    for spec, words in (
        (Spec(5, 12), ("'wide' has feature dimension 12, ", " has 8")),
        (Spec(7, 8), ("'wide' has number of classes 7, ", " has 5")),
    ):
        cohorts = [federation.Cohort("narrow", toys.net(8), (0, 1))]
        cohorts.append(federation.Cohort("wide", toys.net(8, spec), (2,)))
        with refused(*words):
            shape_checks.check_cohorts(method, cohorts, toys.SPEC, x)
