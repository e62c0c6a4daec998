"""Mistakes in methods and networks of users: each is one line with its place."""

import dataclasses
import re

import flax.linen
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from support.every import check_every
from support.runs import digits

import jaxproto
from jaxproto import METHODS, UserError
from jaxproto.methods.fedavg import fedavg
from jaxproto.models import NETS, from_nnx
from jaxproto.types import LossAux

HERE = re.escape(__file__)


def head_average(spec, **changes):
    """A correct method that predicts without its server, with functions replaced."""
    own = {"predict": METHODS["local"](spec).predict}
    return dataclasses.replace(METHODS["lg_fedavg"](spec), **own | changes)


def slots(**changes):
    return lambda spec: head_average(spec, **changes)


def branch(net, params, norm, batch, down, client):
    if batch.y.sum() > 0:
        return 0.0, LossAux(norm)


def stopped(net, params, norm, batch, down, client):
    out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
    return jnp.sum(jax.lax.stop_gradient(out.logits)), LossAux(norm)


def other(out):
    return lambda *args: out


FEATURES = other({"head": jnp.ones((3, 64))})
MISTAKES = {  # changed slots, or a factory -> part of the message
    "predict: features": ({"predict": FEATURES}, r"predict returns float32\[3,64\]"),
    "predict: no scores": (
        {"predict": other({"head": jnp.zeros(3)})},
        r"predict returns float32\[3\] for the rule 'head'; it must return a score",
    ),
    "predict: no dict": ({"predict": other(1.0)}, "predict returns float; .*rule"),
    "update: axis left": (
        {"update": lambda net, server, up, key: up[0]},
        r"update returns float32\[2,10\] at \['bias'\]; init_server has float32\[10\]",
    ),
    "update: list for tuple": (
        {
            "init_server": lambda net, key: (net.init(key)[0]["head"],),
            "receive": lambda own, down: own,
            "update": lambda net, server, up, key: list(server),
        },
        r"update returns the tree .*\[.*; init_server has",
    ),
    "update: attribute": (
        {"update": lambda net, server, up, key: up[1].items()},
        rf"AttributeError: jax.Array has no attribute items, line \d+ of {HERE}",
    ),
    "loss: no LossAux": (
        {"loss": other(0.0)},
        r"loss returns float; it must return \(scalar, LossAux\(norm, sums\)\)",
    ),
    "loss: vector": (
        {"loss": lambda net, params, norm, *rest: (jnp.ones(3), LossAux(norm))},
        r"loss returns float32\[3\]; it must return a float scalar",
    ),
    "loss: constant": (
        {"loss": lambda net, params, norm, *rest: (jnp.float32(1), LossAux(norm))},
        rf"loss has no gradient for any parameter: it is constant.*{HERE}",
    ),
    "loss: stopped": (
        {"loss": stopped},
        rf"loss has no gradient for any parameter.*stop_gradient.*{HERE}",
    ),
    "loss: a branch": (
        {"loss": branch},
        rf"loss needs the value of a traced array.*, line \d+ of {HERE}",
    ),
    "receive: a part": (
        {"receive": lambda own, down: {"net": {"head": down}}},
        r"receive returns nothing at \['net'\]\['body'\].*init_client has float32",
    ),
    "init_client: a pair": (
        {"init_client": lambda net, key: net.init(key)},
        r"init_client returns a tuple of 2; it must return \(params, norm, memory\)",
    ),
    "features: of an example": (
        {"features": lambda net, client, x: x[0]},
        r"features returns float32\[.*; it must return features \[3,D\]",
    ),
    "factory: a dict": (lambda spec: {}, "factory returns dict; .*jaxproto.Method"),
    "factory: no default": (
        lambda spec, *, rate: head_average(spec),
        "argument 'rate' of its factory has no default",
    ),
    "factory: fails": ({"colour": "red"}, "its factory fails: TypeError: .*'colour'"),
    "factory: the method": (METHODS["local"](None), "METHODS .*no function: enter"),
}


class Width(nnx.Module):
    def __init__(self, input_shape, rngs):
        self.layer = nnx.Linear(7, 3, rngs=rngs)  # whatever the input has

    def __call__(self, x):
        return self.layer(x.reshape(len(x), -1))


class WholeNumbers(nnx.Module):
    def __init__(self, input_shape, rngs):
        self.layer = nnx.Linear(64, 64, rngs=rngs)

    def __call__(self, x):
        return self.layer(x.reshape(len(x), -1)).astype(int)


def whole_logits(input_shape, num_classes, feat_dim, ops=None):
    net = NETS["mlp"](input_shape, num_classes, feat_dim, ops)

    def apply(*args):
        out = net.apply(*args)
        return out._replace(logits=out.logits.astype(int))

    return net._replace(apply=apply)


def no_outputs(input_shape, num_classes, feat_dim, ops=None):
    net = NETS["mlp"](input_shape, num_classes, feat_dim, ops)
    return net._replace(apply=lambda params, norm, x, train, key=None: x)


NETWORKS = {
    "a network": (NETS["mlp"]((8, 8, 1), 10, 64), r"is an instance of Net; .*from_nnx"),
    "a linen module": (flax.linen.Dense(3), r"its factory fails.*from_nnx"),
    "a wrong width": (from_nnx(Width), "apply fails for inputs .*line .*"),
    "whole features": (from_nnx(WholeNumbers), r"features int32\[.*must be floats"),
    "whole logits": (whole_logits, r"apply returns int32\[2,10\] as logits; .*floats"),
    "no NetOutput": (no_outputs, r"apply returns float32\[\d+,8,8,1\], not NetOutput"),
}


def test_a_mistake_in_a_method_is_named_with_function_and_shapes(monkeypatch):
    def check(name, factory, message):
        factory = slots(**factory) if isinstance(factory, dict) else factory
        monkeypatch.setitem(METHODS, "mine", factory)
        with pytest.raises(UserError, match=message) as e:
            jaxproto.check(digits("mine"))
        assert "\n" not in f"{e.value}"

    check_every([(name, *row) for name, row in MISTAKES.items()], check)


def test_a_mistake_in_a_network_is_named(monkeypatch):
    def check(name, factory, message):
        monkeypatch.setitem(NETS, "mine", factory)
        with pytest.raises(UserError, match=f"network 'mine'.*{message}"):
            jaxproto.check(digits("fedavg", model__group="mine"))

    check_every([(name, *row) for name, row in NETWORKS.items()], check)


def test_a_run_checks_before_it_writes_and_what_is_right_passes(monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "mine", slots(update=other(None)))
    with pytest.raises(UserError, match="update returns nothing"):
        jaxproto.run(digits("mine"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    monkeypatch.setitem(METHODS, "mine", slots())
    monkeypatch.setitem(METHODS, "sums", lambda spec: dataclasses.replace(fedavg(spec)))
    for name in ("mine", "sums"):
        jaxproto.check(digits(name))
