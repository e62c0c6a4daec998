"""Both forms of the larger networks, their blocks against numpy, and dropout."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.special import expit
from support import networks
from support.every import every
from support.fast_jit import jit
from support.networks import KEY, build, close, relative, shapes

from jaxproto.models import dropout, efficientnet, layers, mobilenet, resnet, shufflenet
from jaxproto.models.layers import CallContext, GroupNorm, InitialDraws
from jaxproto.models.ops import ops

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

SMALL = (8, 8, 3)
EVAL = CallContext(False, ops.CPU)


def test_initial_values_are_torchvisions():
    """He's normal by fan-out (depthwise: k * k * C), ShuffleNetV2 PyTorch's
    default; torchvision's squeeze-excite biases are 0; the head has the default."""
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
    for params in (eff, mob, shuf):
        assert float(jnp.max(jnp.abs(params["head"]["kernel"]))) <= 0.25


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


@every(NEW)
def test_a_step_of_all_clients_lowers_for_accelerators(name):
    """Lowering shows that JAX has every operation there."""
    traced = jax.jit(jax.vmap(step(name, ops.LAX))).trace(*start(name))
    for platform in ("cuda", "tpu"):
        program = traced.lower(lowering_platforms=(platform,)).as_text()
        assert "stablehlo.convolution" in program


def values(module, rng):
    for _, part in nnx.iter_modules(module):
        leaves = vars(part).items()
        for leaf in (v for _, v in leaves if isinstance(v, nnx.Variable)):
            low = 0.5 if isinstance(part, layers.BatchNorm | GroupNorm) else -0.5
            leaf[...] = jnp.asarray(rng.uniform(low, low + 1, leaf.shape), jnp.float32)
    return module


def conv(x, layer):
    """Convolves [B, H, W, C] with numpy, 1x1 or depthwise."""
    kernel, k = np.asarray(layer.kernel[...]), layer.kernel.shape[0]
    if k == 1:
        return x @ kernel[0, 0]
    x = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (k, k), (1, 2))
    seen = seen[:, :: layer.stride, :: layer.stride]
    return np.einsum("bhwcij,ijc->bhwc", seen, kernel[:, :, 0])


def norm(x, layer):
    arrays = layer.mean, layer.var, layer.scale, layer.bias
    mean, var, scale, bias = (np.asarray(leaf[...]) for leaf in arrays)
    return (x - mean) / np.sqrt(var + 1e-5) * scale + bias


def member(chain, i):
    return getattr(chain, str(i))


def conv_norm(x, chain, i=0):
    return norm(conv(x, member(chain, i)), member(chain, i + 1))


relu = functools.partial(np.maximum, 0)


def silu(x):
    return x * expit(x)


def grouped(x, layer):
    """PyTorch's formula: neighbouring channels are a group, the variance is biased."""
    parts = x.reshape(*x.shape[:3], 2, -1)
    mean, var = (f(axis=(1, 2, 4), keepdims=True) for f in (parts.mean, parts.var))
    unit = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    return unit * np.asarray(layer.scale[...]) + np.asarray(layer.bias[...])


@every([False, True])
def test_a_group_norm_is_of_each_example_and_group_of_channels(train):
    rng = np.random.default_rng(0)
    layer = values(GroupNorm(6), rng)
    x = rng.normal(1e3, 2.0, size=(3, 4, 5, 6)).astype(np.float32)
    got = layer(jnp.asarray(x), CallContext(train, ops.CPU))
    close(got, grouped(x.astype(np.float64), layer), 1e-3)
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
    other = shapes(build("resnet18", SMALL, 3, 16))[0]
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, other)


@every([(8, 1), (6, 2)])
def test_a_shuffle_unit_is_torchvisions(inputs, stride):
    """ShuffleNetV2's Figure 3 (c), (d): output channel 2 i + g is channel i of half g
    (torchvision: view(groups, C / groups), transpose, flatten)."""
    rng = np.random.default_rng(0)
    unit = values(shufflenet.ShuffleUnit(inputs, 8, stride, InitialDraws()), rng)
    x = rng.normal(size=(2, 5, 5, inputs)).astype(np.float32)
    kept, used = (x[..., :4], x[..., 4:]) if stride == 1 else (x, x)
    if stride == 2:
        kept = relu(conv_norm(conv_norm(x, unit.branch1), unit.branch1, 2))
    used = relu(conv_norm(used, unit.branch2))
    used = conv_norm(used, unit.branch2, 3)
    used = relu(conv_norm(used, unit.branch2, 5))
    both = np.concatenate((kept, used), -1)
    mixed = both.reshape(*both.shape[:3], 2, 4).swapaxes(3, 4).reshape(both.shape)
    close(unit(jnp.asarray(x), EVAL), mixed)


def mbconv(**options):
    return efficientnet.MBConv(8, 8, InitialDraws(), depth_rate=0.5, **options)


@every([(1, 1, 3), (6, 1, 5), (6, 2, 5)])
def test_an_mbconv_block_is_torchvisions(expand, stride, kernel):
    """SiLU after expansion and depthwise convolution; gates from the image's mean
    through a quarter of the block's *input* channels; no activation at the end."""
    rng = np.random.default_rng(0)
    block = values(mbconv(expand=expand, kernel=kernel, stride=stride), rng)
    x = y = rng.normal(size=(2, 5, 5, 8)).astype(np.float32)
    layers = [member(block.block, i) for i in range(3 + (expand > 1))]
    for layer in layers[:-2]:
        y = silu(conv_norm(y, layer))
    gate, squeeze = y.mean((1, 2)), layers[-2]
    assert squeeze.fc1.kernel.shape[-1] == 2
    gate = silu(conv(gate, squeeze.fc1) + np.asarray(squeeze.fc1.bias[...]))
    gate = expit(conv(gate, squeeze.fc2) + np.asarray(squeeze.fc2.bias[...]))
    y = conv_norm(y * gate[:, None, None], layers[-1])
    close(block(jnp.asarray(x), EVAL), x + y if stride == 1 else y)


def call(seed=0):
    return CallContext(True, ops.CPU, layers.KeyStream(jax.random.key(seed)))


def test_dropout_zeroes_elements_and_keeps_the_mean():
    """A second one of a call draws anew."""
    now, x = call(), jnp.ones((200, 300))
    first, second = (dropout.dropout(x, 0.2, now) for _ in range(2))
    assert not jnp.array_equal(first, second)
    for got in (first, second):
        assert float(jnp.mean(got == 0)) == pytest.approx(0.2, abs=0.01)
        np.testing.assert_allclose(got[got != 0], 1.25, rtol=1e-6)


def test_stochastic_depth_drops_whole_rows_with_rates_growing_over_sixteen_blocks():
    """As in torchvision: from 0 to 0.1875; a dropped row is its shortcut."""
    got = dropout.drop_rows(jnp.ones((2000, 2, 3, 4)), 0.1875, call())
    flat = got.reshape(2000, -1)
    assert jnp.all(flat == flat[:, :1])
    assert float(jnp.mean(flat[:, 0] == 0)) == pytest.approx(0.1875, abs=0.03)
    np.testing.assert_allclose(flat[flat != 0], 1 / 0.8125, rtol=1e-6)
    net = efficientnet.EfficientNet(3, InitialDraws())
    stages = [member(net.features, i) for i in range(1, 8)]
    rates = [member(s, i).depth_rate for s in stages for i in range(s.length)]
    np.testing.assert_allclose(rates, np.linspace(0, 0.1875, 16))
    block = values(mbconv(expand=6, kernel=3, stride=1), np.random.default_rng(0))
    x = jax.random.normal(KEY, (32, 3, 3, 8))
    whole = block(x, CallContext(True, ops.CPU)) - x
    got = block(x, call()) - x
    rows = np.array([float(jnp.max(jnp.abs(row))) > 0 for row in got])
    assert 0 < rows.sum() < 32
    close(got[rows], 2 * whole[rows], 1e-3)


PLACES = [  # place, clean, shared
    (dropout.no_dropout, True, True),
    (dropout.logits_only, True, False),
    (dropout.before_pool, False, True),
    (dropout.dropout_features, False, True),
]


def twice(x):
    return 2 * x


@every(PLACES)
def test_a_placement_says_who_sees_dropout(place, clean, shared):
    """Clean features by default, the released code's by choice."""
    x = jnp.ones((20, 30))
    feat, given = place(x, twice, call())
    assert bool(jnp.all(feat == 2)) == clean
    assert bool(jnp.array_equal(feat, given)) == shared
    for seen in (feat, given):
        assert set(np.unique(seen)) <= {0.0, 2.0, 2.5}
    for quiet in (CallContext(True, ops.CPU), EVAL):
        assert all(jnp.all(out == 2) for out in place(x, twice, quiet))
    if place is dropout.before_pool:  # drops what the pool averages
        feat, _ = place(x, lambda x: x[:, :4], call())
        np.testing.assert_array_equal(feat, dropout.dropout(x, 0.2, call())[:, :4])


@every(["mobilenet_v2", "mobilenet_v2_code"])
def test_randomness_comes_from_the_key_in_training_only(name):
    params, norm, x = (one(tree, 0) for tree in start("mobilenet_v2"))
    net = build(name, SMALL, 3, 16)
    train = jit(lambda key: net.apply(params, norm, x, True, key))
    first, again, other = (train(jax.random.key(i)) for i in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not jnp.allclose(first.logits, other.logits)
    clean = bool(jnp.array_equal(first.feat, other.feat))
    assert clean == (name == "mobilenet_v2")
    evaluated = jax.make_jaxpr(functools.partial(net.apply, train=False))
    assert "random_bits" not in str(evaluated(params, norm, x, key=KEY))
