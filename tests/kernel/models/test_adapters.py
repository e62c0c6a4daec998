"""Networks in Flax NNX, Flax Linen and Equinox behind the library's `Net`."""

import functools
import math
import sys

import equinox as eqx
import jax
import numpy as np
from flax import linen, nnx
from support.every import every
from support.fast_jit import jit
from support.networks import KEY, close
from support.refusal import refused

from jaxproto import models
from jaxproto.config import code_digest
from jaxproto.errors import place_of

SHAPE = (4, 4, 1)
X = np.random.default_rng(0).normal(size=(6, *SHAPE)).astype(np.float32) + 1.0


class OfNnx(nnx.Module):
    def __init__(self, input_shape, rngs):
        linear = nnx.Linear(math.prod(input_shape), 12, rngs=rngs)
        norm = nnx.BatchNorm(12, momentum=0.5, rngs=rngs)
        self.layers = nnx.Sequential(linear, norm, nnx.Dropout(0.5, rngs=rngs))

    def __call__(self, x):
        return self.layers(x.reshape(len(x), -1))


class OfLinen(linen.Module):
    @linen.compact
    def __call__(self, x, train):
        x = linen.Dense(12)(x.reshape(len(x), -1))
        x = linen.BatchNorm(not train, momentum=0.5)(x)
        return linen.Dropout(0.5, deterministic=not train)(x)


class OfEquinox(eqx.Module):
    linear: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout

    def __init__(self, input_shape, key):
        self.linear = eqx.nn.Linear(math.prod(input_shape), 12, key=key)
        self.norm = eqx.nn.BatchNorm(12, "batch", momentum=0.5, mode="batch")
        self.dropout = eqx.nn.Dropout(0.5)

    def __call__(self, x, state, key=None):
        x, state = self.norm(self.linear(x.ravel()), state)
        return self.dropout(x, key=key), state


FACTORIES = {"nnx": models.from_nnx(OfNnx), "linen": models.from_linen(OfLinen())}
FACTORIES |= {"equinox": models.from_equinox(OfEquinox)}


@functools.cache
def started(name):
    """A network, `apply` compiled, and its first trees."""
    net = FACTORIES[name](SHAPE, 3, 8)
    return net, jit(net.apply, static_argnums=3), *jit(net.init)(KEY)


def same(a, b):
    return jax.tree.leaves(jax.tree.map(np.array_equal, a, b))


@every(FACTORIES)
def test_parameters_are_float32_in_dictionaries_of_texts_by_the_key(name):
    net, _, params, norm = started(name)
    assert set(params) == {"body", "head"} and norm
    as_called = jax.eval_shape(net.init, KEY)
    for path, leaf in jax.tree_util.tree_leaves_with_path(as_called):
        assert all(isinstance(key.key, str) for key in path[1:]), path
        assert not leaf.weak_type, path
    assert {a.dtype.name for a in jax.tree.leaves(params)} == {"float32"}
    assert params["head"]["kernel"].shape == (8, 3)
    init = jit(net.init)
    assert all(same(params, init(KEY)[0]))
    other = init(jax.random.key(1))[0]
    assert not np.array_equal(params["head"]["kernel"], other["head"]["kernel"])
    assert not all(same(params["body"], other["body"]))


@every(FACTORIES)
def test_features_are_pooled_and_training_alone_changes_statistics(name):
    net, apply, params, norm = started(name)
    out = apply(params, norm, X, False)
    assert out.feat.shape == (6, 8) and out.logits.shape == (6, 3)
    close(out.logits, jit(net.head)(params["head"], out.feat))
    assert all(same(norm, out.norm))
    moved = apply(params, norm, X, True, KEY).norm
    assert jax.tree.structure(moved) == jax.tree.structure(norm)
    assert not any(same(norm, moved))
    assert np.abs(apply(params, moved, X, False).feat - out.feat).max() > 1e-3


@every(FACTORIES)
def test_dropout_draws_from_the_key_of_the_step_for_each_example(name):
    _, apply, params, norm = started(name)
    keys = jax.random.split(jax.random.key(5))
    one, again, other = (apply(params, norm, X, True, keys[i]).feat for i in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3
    shown = [apply(params, norm, X, False, key).feat for key in keys]
    np.testing.assert_array_equal(*shown)
    same_B = np.broadcast_to(X[:1], X.shape)
    body = jax.tree.map(lambda a: a + 0.3, params["body"])
    feat_BD = apply({**params, "body": body}, norm, same_B, True, KEY).feat
    assert len(np.unique(np.asarray(feat_BD), axis=0)) > 1
    if name == "nnx":  # without a key it has no dropout
        assert np.all(np.asarray(apply(params, norm, X, True).feat) != 0)


def test_it_counts_as_code_of_ones_own(monkeypatch):
    """No program of it is kept for another process, and PyTorch has no names for it."""
    assert not code_digest.digest(models.NETS["mlp"])[1]
    for name, factory in FACTORIES.items():
        assert code_digest.digest(factory)[1], name
        monkeypatch.setitem(models.NETS, name, factory)
        assert not models.is_mapped(name), name
        models.build(name, input_shape=SHAPE, num_classes=3, feat_dim=8)  # with dropout


class Permuted(eqx.Module):
    order: jax.Array

    def __init__(self, input_shape, key):
        self.order = jax.random.permutation(key, 16)

    def __call__(self, x):
        return x.ravel()[self.order]


class Pair(nnx.Module):
    def __init__(self, input_shape, rngs):
        self.layer = nnx.Linear(1, 1, rngs=rngs)

    def __call__(self, x):
        return x, x


class Forgetful(linen.Module):
    @linen.compact
    def __call__(self, x):
        linen.Dense(3)(x)


def test_a_module_that_returns_no_array_is_named(monkeypatch):
    cases = {
        "Pair returns a tuple of 2; it must return one array": models.from_nnx(Pair),
        "Forgetful returns None; it must return one": models.from_linen(Forgetful()),
    }
    for message, factory in cases.items():
        monkeypatch.setitem(models.NETS, "mine", factory)
        with refused(f"the module {message}"):
            models.build("mine", input_shape=SHAPE, num_classes=3, feat_dim=8)


def test_the_place_of_a_network_of_a_module_is_that_of_its_class():
    for factory in FACTORIES.values():
        assert place_of(factory).startswith(f"{__file__}, line ")


def test_what_is_no_body_and_no_equinox_are_refused(monkeypatch):
    monkeypatch.setitem(models.NETS, "conv", models.from_linen(linen.Conv(2, (3, 3))))
    with refused("features of shape (4, 4, 2)"):
        models.build("conv", input_shape=SHAPE, num_classes=3, feat_dim=8)
    with refused("array of int32 [16] that is no parameter"):
        models.from_equinox(Permuted)(SHAPE, 3, 8)
    monkeypatch.setitem(sys.modules, "equinox", None)
    with refused("pip install 'jaxproto[equinox]'"):
        models.from_equinox(OfEquinox)
