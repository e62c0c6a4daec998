"""Floats of a configuration are arguments of the compiled programs."""

import dataclasses
from functools import partial
from typing import Annotated

import jax
import pytest
from support import runs

import jaxproto
from jaxproto import config
from jaxproto.core.hyperparameters import STATIC
from jaxproto.experiment import build
from jaxproto.experiment import traced as floats
from jaxproto.methods import METHODS
from jaxproto.methods.local import local
from jaxproto.training import programs

EVERYTHING = {  # what has floats
    "participation.law": "uniform",
    "participation.fraction": 0.4,
    "participation.dropout": 0.2,
    "optimizer.schedule": "exponential",
    "optimizer.decay": 0.9,
    "optimizer.clip_norm": 3.0,
    "optimizer.weight_decay": 0.01,
}
QUICK = ("fedproto",)  # of the others `.ci/run` knows


def small(name, **changes):
    c = runs.digits(name, **changes)
    if "aux" in c.method:
        c.method.aux = "mlp"
    return c


@pytest.mark.parametrize(
    "name",
    [m if m in QUICK else pytest.param(m, marks=pytest.mark.long) for m in METHODS],
)
def test_other_floats_are_the_same_programs(name):
    constant = {"optimizer.schedule": "constant", "optimizer.decay": 1.0}
    fixed = constant if name == "scaffold" else {}
    c = small(name, **EVERYTHING | fixed)
    others = {path: 0.75 * float(v) for path, v in floats.traced_floats(c).items()}
    other = small(name, **EVERYTHING | others | fixed)
    assert floats.traced_floats(c) != floats.traced_floats(other)
    assert floats.program_settings(c) == floats.program_settings(other)
    assert runs.jaxprs(c) == runs.jaxprs(other)


def test_every_float_of_a_method_is_an_argument_or_off_and_a_share_has_room():
    for name in METHODS:
        c = small(name)
        fields = config.flatten({"method": c.method.to_dict()})
        given = {k: v for k, v in fields.items() if type(v) is float}
        off = {k for k, v in given.items() if v == 0}
        traced = {k for k in floats.traced_floats(c) if k.startswith("method.")}
        assert {*given} - off == traced, name
    for share, room in ((0.4, 1), (0.6, 2)):
        c = small("fedavg", **{**EVERYTHING, "participation.fraction": share})
        assert floats.program_settings(c)["participation.room"] == room
    c = small("fedproto", **{"method.lam": 0.0})  # by default it is another number
    assert floats.traced_floats(c)["method.lam"] == 0


def test_a_method_may_branch_on_a_static_float_and_is_told_so(monkeypatch):
    def branching(kind):
        def branches(spec, *, strength: kind = 1.0):
            weight = 2.0 if strength > 0.5 else 1.0
            scaled = partial(jax.tree.map, lambda a: a * weight)
            return dataclasses.replace(local(spec), transform_grads=scaled)

        monkeypatch.setitem(METHODS, "branches", branches)
        return small("branches")

    with pytest.raises(jaxproto.UserError, match=r"'branches' decides.*STATIC.*, line"):
        jaxproto.check(branching(float))
    c = branching(Annotated[float, STATIC])
    assert "method.strength" not in floats.traced_floats(c)
    assert programs.shapes(build.experiment(c, "cpu"), 0)
    assert floats.program_settings(c)["method.strength"] == 1.0
