"""The larger networks: both forms, blocks against numpy, gradients, dropout.

Sizes are tested in `test_models.py`, golden numbers in `test_from_torch.py`.
"""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxproto import models
from jaxproto.models import dropout, efficientnet, mobilenet, resnet, shufflenet
from jaxproto.models.layers import BatchNorm, Call, Draws, GroupNorm, Keys
from jaxproto.nn import ops

pytestmark = pytest.mark.long

NEW = ("mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0", "resnet18")
SMALL = (8, 8, 3)


def build(name, shape=SMALL, classes=3, dim=16, **options):
    return models.build(
        name, input_shape=shape, num_classes=classes, feat_dim=dim, **options
    )


def close(got, expected, tolerance=1e-4):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        got,
        expected,
    )


@functools.cache
def start(name):
    """First parameters and statistics of two clients, and a batch for each."""
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(jax.random.key(1), (2, 8, *SMALL))
    return *jax.jit(jax.vmap(build(name).init))(keys), x


def one(tree, client):
    return jax.tree.map(lambda leaf: leaf[client], tree)


def step(name, form):
    """Loss, outputs and gradient of one training step without dropout."""
    net = build(name, ops=form)

    def loss(params, norm, x):
        out = net.apply(params, norm, x, True)
        picked = jax.nn.log_softmax(out.logits)[:, 0]
        return jnp.mean(out.feat**2) - jnp.mean(picked), out

    return jax.value_and_grad(loss, has_aux=True)


def relative(got, expected):
    got, expected = (jax.flatten_util.ravel_pytree(t)[0] for t in (got, expected))
    return float(jnp.linalg.norm(got - expected) / jnp.linalg.norm(expected))


# ------------------------------------------------------------------------- whole nets
CUT = {  # each kind of block once or twice: the same code in a small graph
    "mobilenet_v2": (mobilenet, "STAGES", ((1, 16, 1, 1), (6, 24, 2, 2))),
    "shufflenet_v2_x1_0": (shufflenet, "STAGES", ((116, 2), (232, 1), (464, 1))),
    "efficientnet_b0": (efficientnet, "STAGES", ((1, 3, 1, 16, 1), (6, 5, 2, 24, 2))),
    "resnet18": (resnet, "WIDTHS", (64, 128)),
}


TOGETHER = [(name, ops.LAX) for name in NEW]
TOGETHER += [("mobilenet_v2", form) for form in (ops.TPU, ops.GPU)]
TOGETHER += [("shufflenet_v2_x1_0", ops.TPU)]


@pytest.mark.parametrize(("name", "form"), TOGETHER)
def test_training_clients_together_equals_each_alone(name, form, monkeypatch):
    """The accelerator's way (its forms under vmap) against the CPU's (one
    client, convolutions as matrix products), outputs and gradients, in float64: in
    float32 a ReLU whose input is within rounding of 0 goes either way."""
    monkeypatch.setattr(*CUT[name])
    with jax.enable_x64(True):
        trees = start.__wrapped__(name)
        trees = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), trees)
        together = jax.jit(jax.vmap(step(name, form)))(*trees)
        alone = jax.jit(step(name, ops.CPU))
        for client in range(2):
            got = alone(*one(trees, client))
            assert relative(got[0], one(together[0], client)) < 1e-9
            assert relative(got[1], one(together[1], client)) < 1e-9
        leaves = jax.tree.leaves(got)
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        assert np.mean([np.any(leaf != 0) for leaf in leaves]) > 0.9


@pytest.mark.parametrize("name", NEW)
def test_whole_networks_evaluate_alike_in_both_forms(name):
    trees = one(start(name), 0)
    forms = (build(name, ops=form).apply for form in (ops.CPU, ops.LAX))
    outs = [jax.jit(apply, static_argnums=3)(*trees, False) for apply in forms]
    assert relative(*outs) < 1e-4


@pytest.mark.parametrize("name", NEW)
def test_a_step_of_all_clients_lowers_for_accelerators(name):
    """Whether JAX has every operation there, not what comes of it."""
    traced = jax.jit(jax.vmap(step(name, ops.LAX))).trace(*start(name))
    for platform in ("cuda", "tpu"):
        program = traced.lower(lowering_platforms=(platform,)).as_text()
        assert "stablehlo.convolution" in program


# --------------------------------------------------------------------- blocks in numpy
def values(module, rng):
    """Random numbers for every array of a module."""
    for _, part in nnx.iter_modules(module):
        leaves = vars(part).items()
        for leaf in (v for _, v in leaves if isinstance(v, nnx.Variable)):
            low = 0.5 if isinstance(part, BatchNorm | GroupNorm) else -0.5
            leaf[...] = jnp.asarray(rng.uniform(low, low + 1, leaf.shape), jnp.float32)
    return module


def conv(x, layer):
    """[B, H, W, C], 1x1 or depthwise, one output pixel at a time."""
    kernel, k = np.asarray(layer.kernel[...]), layer.kernel.shape[0]
    if k == 1:
        return x @ kernel[0, 0]
    x = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    s = layer.stride
    rows, cols = ((n - k) // s + 1 for n in x.shape[1:3])
    out = np.zeros((len(x), rows, cols, x.shape[-1]))
    for i in range(rows):
        for j in range(cols):
            seen = x[:, i * s : i * s + k, j * s : j * s + k]
            out[:, i, j] = (seen * kernel[:, :, 0]).sum((1, 2))
    return out


def norm(x, layer):
    mean, var, scale, bias = (
        np.asarray(leaf[...])
        for leaf in (layer.mean, layer.var, layer.scale, layer.bias)
    )
    return (x - mean) / np.sqrt(var + 1e-5) * scale + bias


def member(chain, i):
    return getattr(chain, str(i))


def conv_norm(x, chain, i=0):
    return norm(conv(x, member(chain, i)), member(chain, i + 1))


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


EVAL = Call(False, ops.CPU)


def grouped(x, layer):
    """PyTorch's formula: neighbouring channels are a group, the variance is biased."""
    parts = x.reshape(*x.shape[:3], 2, -1)
    mean, var = (f(axis=(1, 2, 4), keepdims=True) for f in (parts.mean, parts.var))
    unit = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    return unit * np.asarray(layer.scale[...]) + np.asarray(layer.bias[...])


@pytest.mark.parametrize("train", [False, True])
def test_a_group_norm_is_of_each_example_and_group_of_channels(train):
    rng = np.random.default_rng(0)
    layer = values(GroupNorm(6), rng)
    x = rng.normal(1e3, 2.0, size=(3, 4, 5, 6)).astype(np.float32)
    got = layer(jnp.asarray(x), Call(train, ops.CPU))
    close(got, grouped(x.astype(np.float64), layer), 1e-3)
    half = layer(jnp.asarray(x, jnp.bfloat16), EVAL)
    assert half.dtype == jnp.bfloat16


def test_every_norm_of_resnet18_gn_is_a_group_norm(monkeypatch):
    """Also those in shortcuts: nothing depends on the rest of the batch."""
    monkeypatch.setattr(*CUT["resnet18"])
    net, x = build("resnet18_gn"), jax.random.normal(jax.random.key(1), (4, *SMALL))
    params, norm = jax.jit(net.init)(jax.random.key(0))
    assert not norm
    train = jax.jit(lambda x: net.apply(params, norm, x, True).feat)
    close(train(x)[:1], train(x[:1]))
    other = jax.eval_shape(build("resnet18").init, jax.random.key(0))[0]
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, other)


@pytest.mark.parametrize(("inputs", "stride"), [(8, 1), (6, 2)])
def test_a_shuffle_unit_is_torchvisions(inputs, stride):
    """ShuffleNetV2's Figure 3 (c), (d): output channel 2 i + g is channel i of half g
    (torchvision: view(groups, C / groups), transpose, flatten)."""
    rng = np.random.default_rng(0)
    unit = values(shufflenet.ShuffleUnit(inputs, 8, stride, Draws()), rng)
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


@pytest.mark.parametrize(
    ("expand", "stride", "kernel"), [(1, 1, 3), (6, 1, 5), (6, 2, 5)]
)
def test_an_mbconv_block_is_torchvisions(expand, stride, kernel):
    """SiLU after expansion and depthwise convolution; gates from the image's mean
    through a quarter of the block's *input* channels; no activation at the end."""
    rng = np.random.default_rng(0)
    block = efficientnet.MBConv(8, 8, expand, kernel, stride, 0.5, Draws())
    block = values(block, rng)
    x = y = rng.normal(size=(2, 5, 5, 8)).astype(np.float32)
    layers = [member(block.block, i) for i in range(3 + (expand > 1))]
    for layer in layers[:-2]:
        y = silu(conv_norm(y, layer))
    gate, squeeze = y.mean((1, 2)), layers[-2]
    assert squeeze.fc1.kernel.shape[-1] == 2
    gate = silu(conv(gate, squeeze.fc1) + np.asarray(squeeze.fc1.bias[...]))
    gate = sigmoid(conv(gate, squeeze.fc2) + np.asarray(squeeze.fc2.bias[...]))
    y = conv_norm(y * gate[:, None, None], layers[-1])
    close(block(jnp.asarray(x), EVAL), x + y if stride == 1 else y)


# ---------------------------------------------------------------------------- dropout
def call(seed=0):
    return Call(True, ops.CPU, Keys(jax.random.key(seed)))


def test_dropout_zeroes_elements_and_keeps_the_mean():
    x = jnp.ones((200, 300))
    got = dropout.dropout(x, 0.2, call())
    assert float(jnp.mean(got == 0)) == pytest.approx(0.2, abs=0.01)
    np.testing.assert_allclose(got[got != 0], 1.25, rtol=1e-6)


def test_stochastic_depth_drops_whole_rows():
    got = dropout.drop_rows(jnp.ones((2000, 2, 3, 4)), 0.1875, call())
    flat = got.reshape(2000, -1)
    assert jnp.all(flat == flat[:, :1])
    assert float(jnp.mean(flat[:, 0] == 0)) == pytest.approx(0.1875, abs=0.03)
    np.testing.assert_allclose(flat[flat != 0], 1 / 0.8125, rtol=1e-6)


def test_a_second_dropout_of_a_call_draws_anew():
    now, x = call(), jnp.ones((50, 50))
    first, second = (dropout.dropout(x, 0.5, now) for _ in range(2))
    assert not jnp.array_equal(first, second)


def test_stochastic_depth_grows_linearly_over_sixteen_blocks():
    """As in torchvision: from 0 to 0.1875."""
    net = efficientnet.EfficientNet(3, Draws())
    stages = [member(net.features, i) for i in range(1, 8)]
    rates = [member(s, i).depth_rate for s in stages for i in range(s.length)]
    np.testing.assert_allclose(rates, np.linspace(0, 0.1875, 16))


def twice(x):
    return 2 * x


@pytest.mark.parametrize(
    ("place", "clean", "shared"),
    [
        (dropout.as_is, True, True),
        (dropout.logits_only, True, False),
        (dropout.before_pool, False, True),
        (dropout.in_place, False, True),
    ],
)
def test_a_placement_says_who_sees_dropout(place, clean, shared):
    """Clean features by default, the released code's by choice."""
    x = jnp.ones((20, 30))
    feat, given = place(x, twice, call())
    assert bool(jnp.all(feat == 2)) == clean
    assert bool(jnp.array_equal(feat, given)) == shared
    for seen in (feat, given):
        assert set(np.unique(seen)) <= {0.0, 2.0, 2.5}
    for quiet in (Call(True, ops.CPU), EVAL):
        assert all(jnp.all(out == 2) for out in place(x, twice, quiet))


def test_before_pool_drops_what_the_pool_averages():
    feat, _ = dropout.before_pool(jnp.ones((50, 8)), lambda x: x[:, :4], call())
    wide = dropout.dropout(jnp.ones((50, 8)), 0.2, call())
    np.testing.assert_array_equal(feat, wide[:, :4])


@pytest.mark.parametrize("name", ["mobilenet_v2", "mobilenet_v2_code"])
def test_randomness_comes_from_the_key_in_training_only(name):
    params, norm, x = (one(tree, 0) for tree in start("mobilenet_v2"))
    net = build(name)
    train = jax.jit(lambda key: net.apply(params, norm, x, True, key))
    first, again, other = (train(jax.random.key(i)) for i in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not jnp.allclose(first.logits, other.logits)
    clean = bool(jnp.array_equal(first.feat, other.feat))
    assert clean == (name == "mobilenet_v2")


def test_evaluation_ignores_the_key():
    net = build("efficientnet_b0_code")
    trees = jax.eval_shape(net.init, jax.random.key(0))
    x = jnp.zeros((2, *SMALL))

    def jaxpr(train):
        apply = jax.make_jaxpr(lambda *a: net.apply(*a[:2], x, train, a[2]))
        return str(apply(*trees, jax.random.key(0)))

    assert "random_bits" not in jaxpr(False)
    assert "random_bits" in jaxpr(True)


def test_a_dropped_row_is_its_shortcut():
    block = efficientnet.MBConv(8, 8, 6, 3, 1, 0.5, Draws())
    block = values(block, np.random.default_rng(0))
    x = jax.random.normal(jax.random.key(0), (32, 3, 3, 8))
    whole = block(x, Call(True, ops.CPU)) - x
    got = block(x, call()) - x
    rows = np.array([float(jnp.max(jnp.abs(row))) > 0 for row in got])
    assert 0 < rows.sum() < 32
    close(got[rows], 2 * whole[rows], 1e-3)
