"""Both forms of the larger networks, group normalisation against numpy, and dropout."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import networks
from support.every import every
from support.fast_jit import jit
from support.networks import KEY, build, close, relative

from jaxproto.models import dropout, efficientnet, mobilenet, resnet, shufflenet
from jaxproto.models.layers import CallContext, GroupNorm, InitialDraws
from jaxproto.models.ops import ops

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

SMALL = (8, 8, 3)
EVAL = CallContext(False, ops.CPU)


def test_initial_values_are_torchvisions():
    """He's normal by fan-out (depthwise: k * k * C), ShuffleNetV2 PyTorch's
    default; torchvision's squeeze-excite biases are 0."""
    names = ("mobilenet_v2", "efficientnet_b0", "shufflenet_v2_x1_0")
    nets = [build(name, SMALL, 3, 16) for name in names]
    mob, eff, shuf = (jit(net.init)(KEY)[0] for net in nets)
    wide = mob["body"]["features"]["17"]["conv"]["1"]["0"]["kernel"]
    assert float(jnp.std(wide)) == pytest.approx(np.sqrt(2 / (9 * 960)), rel=0.05)
    gates = eff["body"]["features"]["6"]["3"]["block"]["2"]
    spread = float(jnp.std(gates["fc1"]["kernel"]))
    assert spread == pytest.approx(np.sqrt(2 / 48), rel=0.05)
    assert not jnp.any(gates["fc1"]["bias"]) and not jnp.any(gates["fc2"]["bias"])
    last = shuf["body"]["conv5"]["0"]["kernel"]
    assert float(jnp.max(jnp.abs(last))) <= 1 / np.sqrt(464)
    assert float(jnp.std(last)) == pytest.approx(1 / np.sqrt(3 * 464), rel=0.05)


NEW = ("mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0", "resnet18")


@functools.cache
def start(name):
    """First parameters and statistics of two clients, and a batch for each."""
    keys, net = jax.random.split(KEY, 2), build(name, SMALL, 3, 16)
    x = jax.random.normal(jax.random.key(1), (2, 8, *SMALL))
    return *jit(jax.vmap(net.init))(keys), x


def one(tree, client):
    return jax.tree.map(lambda leaf: leaf[client], tree)


def step(name, form):
    return networks.step(build(name, SMALL, 3, 16, ops=form))


CUT = {  # each kind of block once or twice: the same code in a small graph
    "mobilenet_v2": (mobilenet, "STAGES", ((1, 16, 1, 1), (6, 24, 2, 2))),
    "shufflenet_v2_x1_0": (shufflenet, "STAGES", ((116, 2), (232, 1), (464, 1))),
    "efficientnet_b0": (efficientnet, "STAGES", ((1, 3, 1, 16, 1), (6, 5, 2, 24, 2))),
    "resnet18": (resnet, "WIDTHS", (64, 128)),
}
TOGETHER = [(name, ops.LAX) for name in NEW] + [("shufflenet_v2_x1_0", ops.TPU)]
TOGETHER += [("mobilenet_v2", form) for form in (ops.TPU, ops.GPU)]


@pytest.mark.parametrize(("name", "form"), TOGETHER)
def test_training_clients_together_equals_each_alone(name, form, monkeypatch):
    """The accelerator's forms under vmap against the CPU's for one client, in float64:
    in float32 a ReLU whose input is within rounding of 0 goes either way."""
    monkeypatch.setattr(*CUT[name])
    with jax.enable_x64(True):
        trees = start.__wrapped__(name)
        trees = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), trees)
        together = jit(jax.vmap(step(name, form)))(*trees)
        alone = jit(step(name, ops.CPU))
        for client in range(2):
            got = alone(*one(trees, client))
            assert relative(got[0], one(together[0], client)) < 1e-9
            assert relative(got[1], one(together[1], client)) < 1e-9
        leaves = jax.tree.leaves(got)
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        assert np.mean([np.any(leaf != 0) for leaf in leaves]) > 0.9


@every([False, True])
def test_a_group_norm_is_of_each_example_and_group_of_channels(train):
    """PyTorch's: neighbouring channels are a group, the variance is biased."""
    rng, layer = np.random.default_rng(0), GroupNorm(6)
    scale, bias = rng.uniform(-1, 1, (2, 6)).astype(np.float32)
    layer.scale[...], layer.bias[...] = scale, bias
    x = rng.normal(1e3, 2.0, size=(3, 4, 5, 6)).astype(np.float32)
    got = layer(jnp.asarray(x), CallContext(train, ops.CPU))
    parts = x.astype(np.float64).reshape(3, 4, 5, 2, 3)
    mean, var = (f(axis=(1, 2, 4), keepdims=True) for f in (parts.mean, parts.var))
    unit = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    close(got, unit * scale + bias, 1e-3)
    half = layer(jnp.asarray(x, jnp.bfloat16), EVAL)
    assert half.dtype == jnp.bfloat16


def test_every_norm_of_resnet18_gn_is_a_group_norm(monkeypatch):
    """Also those in shortcuts: nothing depends on the rest of the batch."""
    monkeypatch.setattr(*CUT["resnet18"])
    net = build("resnet18_gn", SMALL, 3, 16)
    x = jax.random.normal(jax.random.key(1), (4, *SMALL))
    params, norm = jit(net.init)(KEY)
    assert not norm
    train = jit(lambda x: net.apply(params, norm, x, True).feat)
    close(train(x)[:1], train(x[:1]))


def call():
    keys = map(functools.partial(jax.random.fold_in, KEY), itertools.count(1))
    return CallContext(True, ops.CPU, keys)


def test_dropout_keeps_the_mean_and_stochastic_depth_drops_whole_rows():
    """As in torchvision: the rates of its sixteen blocks grow from 0 to 0.1875."""
    now, x = call(), jnp.ones((2000, 2, 3, 4))
    for drop, rate, near in (
        (dropout.dropout, 0.2, 0.01),
        (dropout.drop_rows, 0.1875, 0.03),
    ):
        first, second = (drop(x, rate, now) for _ in range(2))
        assert not jnp.array_equal(first, second)
        assert float(jnp.mean(first == 0)) == pytest.approx(rate, abs=near)
        np.testing.assert_allclose(first[first != 0], 1 / (1 - rate), rtol=1e-6)
    flat = first.reshape(2000, -1)
    assert jnp.all(flat == flat[:, :1])
    features = efficientnet.EfficientNet(3, InitialDraws()).features
    stages = [getattr(features, str(i)) for i in range(1, 8)]
    rates = [getattr(s, str(i)).depth_rate for s in stages for i in range(s.length)]
    np.testing.assert_allclose(rates, np.linspace(0, 0.1875, 16))


PLACES = [  # place, clean, shared
    (dropout.no_dropout, True, True),
    (dropout.logits_only, True, False),
    (dropout.before_pool, False, True),
    (dropout.dropout_features, False, True),
]


@every(PLACES)
def test_a_placement_says_who_sees_dropout(place, clean, shared):
    """Clean features by default, the released code's by choice."""
    x = jnp.ones((20, 30))
    feat, given = place(x, lambda x: 2 * x, call())
    assert bool(jnp.all(feat == 2)) == clean
    assert bool(jnp.array_equal(feat, given)) == shared
    for seen in (feat, given):
        assert set(np.unique(seen)) <= {0.0, 2.0, 2.5}
    if place is dropout.before_pool:  # drops what the pool averages
        feat, _ = place(x, lambda x: x[:, :4], call())
        np.testing.assert_array_equal(feat, dropout.dropout(x, 0.2, call())[:, :4])


@every(["mobilenet_v2", "mobilenet_v2_code", "efficientnet_b0"])
def test_randomness_comes_from_the_key_in_training_only(name):
    """Features are clean unless blocks drop rows, or those released are dropped out."""
    params, norm, x = (one(tree, 0) for tree in start(name.removesuffix("_code")))
    net = build(name, SMALL, 3, 16)
    train = jit(lambda key: net.apply(params, norm, x, True, key))
    first, again, other = (train(jax.random.key(i)) for i in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert jnp.max(jnp.abs(first.logits - other.logits)) > 1e-4
    clean = bool(jnp.array_equal(first.feat, other.feat))
    assert clean == (name == "mobilenet_v2")
    evaluated = jax.make_jaxpr(functools.partial(net.apply, train=False))
    assert "random_bits" not in str(evaluated(params, norm, x, key=KEY))
