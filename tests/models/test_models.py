"""The networks: sizes, both forms, blocks against numpy, dropout, texts, groups.

What agrees with PyTorch's weights is in `test_from_torch.py`.
"""

import functools
from pathlib import Path

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.every import every
from support.fast_jit import jit
from support.refusal import refused

from jaxproto import models, nn
from jaxproto.models import (
    dropout,
    efficientnet,
    layers,
    mobilenet,
    resnet,
    shufflenet,
    text,
)
from jaxproto.models.layers import BatchNorm, Call, Draws, GroupNorm, Keys
from jaxproto.nn import ops
from jaxproto.types import PADDING

long = pytest.mark.long
GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "networks.npz")
SMALL = (8, 8, 3)
TEXT, CODE = models.GROUPS["text"], models.GROUPS["text_code"]
KEY = jax.random.key(0)


def build(name, shape=(32, 32, 3), classes=10, dim=500, **options):
    return models.build(
        name, input_shape=shape, num_classes=classes, feat_dim=dim, **options
    )


def shapes(net):
    """Shapes of params and norm, without computing anything."""
    return jax.eval_shape(net.init, KEY)


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def output(net, trees, x_shape, train=True, dtype=jnp.float32, key=None):
    """Output of a network, as shapes."""
    x = jax.ShapeDtypeStruct(x_shape, dtype)
    return jax.eval_shape(lambda *a: net.apply(*a, train, key), *trees, x)


def dtypes(tree):
    return {leaf.dtype.name for leaf in jax.tree.leaves(tree)}


def close(got, expected, tolerance=1e-4):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        got,
        expected,
    )


# ---------------------------------------------------------------------- sizes and trees
BODIES = {  # of the PyTorch originals: parameters, running mean and variance
    "resnet4": (83_520, 384),
    "resnet6": (313_664, 1_152),
    "resnet8": (1_232_704, 2_688),
    "resnet10": (4_905_792, 5_760),
    "resnet18": (11_176_512, 9_600),
    "resnet18_gn": (11_176_512, 0),
    "mobilenet_v2": (2_223_872, 34_112),
    "mobilenet_v2_code": (2_223_872, 34_112),
    "shufflenet_v2_x1_0": (1_253_604, 16_180),
    "efficientnet_b0": (4_007_548, 42_016),
    "efficientnet_b0_code": (4_007_548, 42_016),
    "cnn4": (873_408, 0),
}


PRINTED = {  # totals of the PyTorch originals, with these K and d
    "resnet8": (10, 500, 1_237_714),
    "mobilenet_v2": (100, 512, 2_275_172),
    "shufflenet_v2_x1_0": (200, 500, 1_353_804),
    "efficientnet_b0": (100, 500, 4_057_648),
    "resnet18": (10, 512, 11_181_642),
}


@every(BODIES)
def test_parameter_counts_are_the_released_ones(name):
    """As PyTorch counts them: the body's count, and d * K + K for the head."""
    classes, dim, total = PRINTED.get(name, (200, 512, None))
    params, norm = shapes(build(name, classes=classes, dim=dim))
    assert (size(params["body"]), size(norm)) == BODIES[name]
    assert size(params["head"]) == dim * classes + classes
    assert total in (None, size(params))


def test_cnn4_at_64_pixels_has_the_released_count():
    """As PyTorch counts them: 5,597,010 at K = 10, d = 500."""
    assert size(shapes(build("cnn4", (64, 64, 3)))[0]) == 5_597_010


@long
@every(
    (name + variant, *counts)
    for name, *counts in (
        ("fasttext", 49_568_000, 250_500),
        ("textcnn", 50_068_300, 750_800),
    )
    for variant in ("", "_code")
)
def test_parameter_counts_on_texts_are_the_released_ones(name, whole, rest):
    """As PyTorch counts: bodies at d = 500 with 98,635 words; without the embedding."""
    params, norm = shapes(build(name, (200,), 4, vocab_size=98_635))
    assert size(params["body"]) == whole
    assert size(params["body"]) - size(params["body"]["embedding"]) == rest
    assert size(params["head"]) == 500 * 4 + 4 and not norm


def test_cnn4_d_has_feat_dim_hidden_units():
    params, _ = shapes(build("cnn4_d", dim=100))
    assert params["body"]["fc1"]["0"]["kernel"].shape == (1600, 100)


def test_spiral_network_has_242_parameters():
    """ProtoNorm's spiral network: 2-16-8-4-2-6, no bias in the head."""
    params, norm = shapes(build("spiral_mlp", (2,), 6, 2))
    assert size(params) == 242
    assert list(params["head"]) == ["kernel"]
    assert not norm


@every(models.NETS)
def test_apply_keeps_shapes_and_trees(name):
    shape, dim = ((2,), 2) if name == "spiral_mlp" else ((8, 8, 1), 7)
    options, dtype = {}, jnp.float32
    if name in TEXT + CODE:
        shape, options, dtype = (8,), {"vocab_size": 9}, jnp.int32
    net = build(name, shape, 3, dim, **options)
    params, norm = shapes(net)
    assert set(params) == {"body", "head"}
    for train in (False, True):
        out = output(net, (params, norm), (4, *shape), train, dtype)
        assert out.feat.shape == (4, dim)
        assert out.logits.shape == (4, 3)
        assert out.norm == norm
        assert dtypes((params, out)) == {"float32"}


ANY = [(name, n) for name in ("cnn4", "resnet4") for n in (4, 8, 13, 15, 16, 17)]


@every([*ANY, ("resnet4", 28), ("resnet4", 64), ("cnn4", 28), ("cnn4", 64)])
def test_any_image_size_fits(name, pixels):
    net = build(name, (pixels, pixels, 1))
    out = output(net, shapes(net), (2, pixels, pixels, 1))
    assert out.feat.shape == (2, 500)


USUAL = [(28, 28, 1), *(pytest.param((n, n, 3), marks=long) for n in (32, 64))]


@pytest.mark.parametrize("shape", USUAL)
def test_the_usual_images_fit(shape):
    for name in (*models.GROUPS["Ht0"], "resnet18"):
        net = build(name, shape)
        trees = shapes(net)
        out = output(net, trees, (2, *shape), key=KEY)
        assert (out.feat.shape, out.logits.shape) == ((2, 500), (2, 10)), name
        assert out.norm == trees[1], name


@long
@every(
    [
        (name, length, dtype)
        for name in ("fasttext", "textcnn", "fasttext_code", "textcnn_code")
        for length in (1, 4, 200)
        for dtype in models.registry.PRECISIONS
    ]
)
def test_texts_of_any_length_fit_and_stay_float32(name, length, dtype):
    net = on_texts(name, length, compute_dtype=dtype)
    trees = shapes(net)
    out = output(net, trees, (3, length), dtype=jnp.int32)
    assert (out.feat.shape, out.logits.shape) == ((3, DIM), (3, 4))
    assert dtypes((trees, out)) == {"float32"}


# ------------------------------------------------------------------------ first values
def test_statistics_move_in_training_only_and_init_maps_over_clients():
    """What init gives depends on the key alone."""
    net = build("resnet4", (8, 8, 1), dim=8)
    keys, init = jax.random.split(jax.random.key(3), 2), jit(net.init)
    stacked = jit(jax.vmap(net.init))(keys)
    for i, key in enumerate(keys):
        same = jax.tree.map(lambda a, i=i: a[i], stacked)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), init(key), same
        )
    kernel = stacked[0]["body"]["conv1"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])
    x, apply = jax.random.normal(KEY, (4, 8, 8, 1)), jit(net.apply, static_argnums=3)
    params, norm = init(keys[0])
    for train in (False, True):
        new = apply(params, norm, x, train).norm
        pairs = zip(jax.tree.leaves(norm), jax.tree.leaves(new), strict=True)
        same = [bool(jnp.array_equal(a, b)) for a, b in pairs]
        assert all(same) if not train else not any(same)
    expected = np.sqrt(2 / (49 * 64))  # He's normal by fan-out
    assert np.std(kernel[0]) == pytest.approx(expected, rel=0.05)


@every([("mlp", (8, 8, 1), 9), ("spiral_mlp", (2,), 2)])
def test_head_is_the_last_layer_of_apply(name, shape, dim):
    net = build(name, shape, 4, dim)
    params, norm = jit(net.init)(KEY)
    out = jit(net.apply, static_argnums=3)(params, norm, np.ones((3, *shape)), False)
    head = jit(net.head)(params["head"], out.feat)
    np.testing.assert_allclose(head, out.logits, rtol=1e-6)


def test_linear_layers_have_pytorchs_spread_at_first():
    """kaiming_uniform(a = sqrt 5) is U(-1, 1) / sqrt(fan_in)."""
    for leaf in jit(build("mlp").init)(KEY)[0]["body"]["fc1"].values():
        bound = 1 / np.sqrt(32 * 32 * 3)
        assert np.max(np.abs(leaf)) <= bound
        assert np.std(leaf) == pytest.approx(bound / np.sqrt(3), rel=0.1)


@long
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


def test_no_two_arrays_share_their_draws():
    draws = layers.draw(KEY, {"uniform": 7, "normal": 4})
    parts = [draws.uniform((3,)), draws.normal((2, 2)), draws.uniform((2, 2))]
    flat = np.concatenate([np.ravel(part) for part in parts])
    assert len(set(flat.tolist())) == 11
    assert draws.used == {"uniform": 7, "normal": 4}


def test_relu6_has_no_gradient_at_its_ends():
    x = np.float32([-1.0, 0.0, 1.0, 6.0, 7.0])
    value_and_grad = jax.value_and_grad(lambda x: layers.relu6(x, None))
    got, grad = jit(jax.vmap(value_and_grad))(x)
    np.testing.assert_array_equal(got, [0, 0, 1, 6, 6])
    np.testing.assert_array_equal(grad, [0, 0, 1, 0, 0])


@every([(256, 500), (1280, 512), (1024, 64)])
def test_channel_pool_is_pytorchs(c, d):
    """../shared/golden pool_*: AdaptiveAvgPool1d of PyTorch 2.13."""
    given, expected = (GOLDEN[f"pool_{c}_{d}/{k}"] for k in ("input", "output"))
    np.testing.assert_allclose(nn.channel_pool(given, d), expected, atol=1e-6)


# ----------------------------------------------------- both forms of larger networks
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
    """Loss, outputs and gradient of one training step without dropout."""
    net = build(name, SMALL, 3, 16, ops=form)

    def loss(params, norm, x):
        out = net.apply(params, norm, x, True)
        picked = jax.nn.log_softmax(out.logits)[:, 0]
        return jnp.mean(out.feat**2) - jnp.mean(picked), out

    return jax.value_and_grad(loss, has_aux=True)


def relative(got, expected):
    got, expected = (jax.flatten_util.ravel_pytree(t)[0] for t in (got, expected))
    return float(jnp.linalg.norm(got - expected) / jnp.linalg.norm(expected))


CUT = {  # each kind of block once or twice: the same code in a small graph
    "mobilenet_v2": (mobilenet, "STAGES", ((1, 16, 1, 1), (6, 24, 2, 2))),
    "shufflenet_v2_x1_0": (shufflenet, "STAGES", ((116, 2), (232, 1), (464, 1))),
    "efficientnet_b0": (efficientnet, "STAGES", ((1, 3, 1, 16, 1), (6, 5, 2, 24, 2))),
    "resnet18": (resnet, "WIDTHS", (64, 128)),
}
TOGETHER = [(name, ops.LAX) for name in NEW]
TOGETHER += [("mobilenet_v2", form) for form in (ops.TPU, ops.GPU)]
TOGETHER += [("shufflenet_v2_x1_0", ops.TPU)]


@long
@pytest.mark.parametrize(("name", "form"), TOGETHER)
def test_training_clients_together_equals_each_alone(name, form, monkeypatch):
    """The accelerator's way (its forms under vmap) against the CPU's (one
    client, convolutions as matrix products), outputs and gradients, in float64: in
    float32 a ReLU whose input is within rounding of 0 goes either way."""
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


@long
@every(NEW)
def test_whole_networks_evaluate_alike_in_both_forms(name):
    trees = one(start(name), 0)
    forms = (build(name, SMALL, 3, 16, ops=o).apply for o in (ops.CPU, ops.LAX))
    outs = [jit(apply, static_argnums=3)(*trees, False) for apply in forms]
    assert relative(*outs) < 1e-4


@long
@every([False, True])
def test_forms_do_not_change_the_numbers_of_odd_images(train):
    nets = [build("resnet6", (9, 9, 2), ops=o) for o in (ops.CPU, ops.LAX)]
    trees = *jit(nets[0].init)(KEY), jax.random.normal(KEY, (4, 9, 9, 2))
    close(*[jit(net.apply, static_argnums=3)(*trees, train) for net in nets])


@long
@every(NEW)
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


@long
@every([False, True])
def test_a_group_norm_is_of_each_example_and_group_of_channels(train):
    rng = np.random.default_rng(0)
    layer = values(GroupNorm(6), rng)
    x = rng.normal(1e3, 2.0, size=(3, 4, 5, 6)).astype(np.float32)
    got = layer(jnp.asarray(x), Call(train, ops.CPU))
    close(got, grouped(x.astype(np.float64), layer), 1e-3)
    half = layer(jnp.asarray(x, jnp.bfloat16), EVAL)
    assert half.dtype == jnp.bfloat16


@long
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


@long
@every([(8, 1), (6, 2)])
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


@long
@every([(1, 1, 3), (6, 1, 5), (6, 2, 5)])
def test_an_mbconv_block_is_torchvisions(expand, stride, kernel):
    """SiLU after expansion and depthwise convolution; gates from the image's mean
    through a quarter of the block's *input* channels; no activation at the end."""
    rng = np.random.default_rng(0)
    block = efficientnet.MBConv(
        8, 8, Draws(), expand=expand, kernel=kernel, stride=stride, depth_rate=0.5
    )
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


@long
def test_dropout_zeroes_elements_and_keeps_the_mean():
    x = jnp.ones((200, 300))
    got = dropout.dropout(x, 0.2, call())
    assert float(jnp.mean(got == 0)) == pytest.approx(0.2, abs=0.01)
    np.testing.assert_allclose(got[got != 0], 1.25, rtol=1e-6)


@long
def test_stochastic_depth_drops_whole_rows():
    got = dropout.drop_rows(jnp.ones((2000, 2, 3, 4)), 0.1875, call())
    flat = got.reshape(2000, -1)
    assert jnp.all(flat == flat[:, :1])
    assert float(jnp.mean(flat[:, 0] == 0)) == pytest.approx(0.1875, abs=0.03)
    np.testing.assert_allclose(flat[flat != 0], 1 / 0.8125, rtol=1e-6)


@long
def test_a_second_dropout_of_a_call_draws_anew():
    now, x = call(), jnp.ones((50, 50))
    first, second = (dropout.dropout(x, 0.5, now) for _ in range(2))
    assert not jnp.array_equal(first, second)


@long
def test_stochastic_depth_grows_linearly_over_sixteen_blocks():
    """As in torchvision: from 0 to 0.1875."""
    net = efficientnet.EfficientNet(3, Draws())
    stages = [member(net.features, i) for i in range(1, 8)]
    rates = [member(s, i).depth_rate for s in stages for i in range(s.length)]
    np.testing.assert_allclose(rates, np.linspace(0, 0.1875, 16))


def twice(x):
    return 2 * x


PLACES = [  # place, clean, shared
    (dropout.as_is, True, True),
    (dropout.logits_only, True, False),
    (dropout.before_pool, False, True),
    (dropout.in_place, False, True),
]


@long
@every(PLACES)
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


@long
def test_before_pool_drops_what_the_pool_averages():
    feat, _ = dropout.before_pool(jnp.ones((50, 8)), lambda x: x[:, :4], call())
    wide = dropout.dropout(jnp.ones((50, 8)), 0.2, call())
    np.testing.assert_array_equal(feat, wide[:, :4])


@long
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


@long
def test_evaluation_ignores_the_key():
    net = build("efficientnet_b0_code", SMALL, 3, 16)
    trees, x = shapes(net), jnp.zeros((2, *SMALL))

    def jaxpr(train):
        apply = jax.make_jaxpr(lambda *a: net.apply(*a[:2], x, train, a[2]))
        return str(apply(*trees, KEY))

    assert "random_bits" not in jaxpr(False)
    assert "random_bits" in jaxpr(True)


@long
def test_a_dropped_row_is_its_shortcut():
    block = efficientnet.MBConv(
        8, 8, Draws(), expand=6, kernel=3, stride=1, depth_rate=0.5
    )
    block = values(block, np.random.default_rng(0))
    x = jax.random.normal(KEY, (32, 3, 3, 8))
    whole = block(x, Call(True, ops.CPU)) - x
    got = block(x, call()) - x
    rows = np.array([float(jnp.max(jnp.abs(row))) > 0 for row in got])
    assert 0 < rows.sum() < 32
    close(got[rows], 2 * whole[rows], 1e-3)


# --------------------------------------------------------------------------- on texts
WORDS, DIM = 30, 12
LENGTHS = (0, 1, 2, 3, 4, 5, 9)  # of the texts below; filters see 3, 4 and 5 words


def on_texts(name, length=9, dim=DIM, words=WORDS, **options):
    shape = {"input_shape": (length,), "num_classes": 4}
    return models.build(name, **shape, feat_dim=dim, vocab_size=words, **options)


@functools.cache
def started(name):
    """Parameters, the same for every length of text; no network has statistics."""
    return jit(on_texts(name).init)(jax.random.key(1))[0]


@functools.cache
def features(name, length=9, train=False, **options):
    """Parameters, tokens, key -> features."""
    net = on_texts(name, length, **options)

    def feat(params, x, key=None):
        return net.apply(params, {}, x, train, key).feat

    return jit(feat)


@functools.cache
def grads(name, length=9):
    """Parameters, tokens -> gradient of the sum of the squared features."""
    net = on_texts(name, length)

    def loss(params, x):
        return jnp.sum(net.apply(params, {}, x, True).feat ** 2)

    return jit(jax.grad(loss))


def texts(length):
    """Words from 1 on, and padding behind them."""
    word_BL = np.random.default_rng(0).integers(1, WORDS, (len(LENGTHS), max(LENGTHS)))
    there_BL = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    more = ((0, 0), (0, length - max(LENGTHS)))
    return jnp.asarray(np.pad(np.where(there_BL, word_BL, PADDING), more), jnp.int32)


@long
@every(TEXT)
def test_padding_changes_no_feature_and_no_gradient(name):
    params, found = started(name), []
    for n in (9, 14, 60):  # of 60, the first 32 are computed
        given = params, texts(n)
        found.append((features(name, n)(*given), grads(name, n)(*given)))
    for other in found[1:]:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-4), found[0], other
        )


@long
@every(TEXT + CODE)
def test_texts_of_any_length_are_read_to_their_end(name):
    """Against the form of the operation that cuts nothing."""
    params = started(name)
    word_BL = np.random.default_rng(1).integers(1, WORDS, (3, 60))
    for used in (31, 32, 33, 60):
        x = jnp.asarray(np.where(np.arange(60) < used, word_BL, PADDING), jnp.int32)
        cut, uncut = (features(name, 60, ops=o)(params, x) for o in (ops.CPU, ops.LAX))
        np.testing.assert_allclose(cut, uncut, 1e-5, 1e-5)


@long
@every(TEXT + CODE)
def test_the_vector_of_padding_is_zero_and_gets_no_gradient(name):
    params = started(name)
    assert np.all(params["body"]["embedding"]["table"][PADDING] == 0)
    grad = grads(name)(params, texts(9))["body"]["embedding"]["table"]
    assert np.all(grad[PADDING] == 0) and np.any(grad[1:] != 0)


@long
@every(CODE)
def test_released_variants_see_padding_and_give_log_probabilities(name):
    """As released: features are log-softmax, and padding counts among the words."""
    params = started(name)
    short, long = (features(name, n)(params, texts(n)) for n in (9, 14))
    np.testing.assert_allclose(np.exp(short).sum(1), 1, atol=1e-5)
    assert np.abs(short - long)[-1].max() > 1e-3


@long
@every(TEXT)
def test_empty_texts_have_finite_features_and_gradients(name):
    x = jnp.full((len(LENGTHS), 9), PADDING, jnp.int32)
    found = features(name)(started(name), x), grads(name)(started(name), x)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))


@long
def test_fasttext_is_a_linear_layer_on_the_mean_of_the_words():
    """As released, with the mean over the words that are there."""
    params = started("fasttext")
    body = jax.tree.map(np.asarray, params["body"])
    table, layer = body["embedding"]["table"], body["fc1"]
    feat = features("fasttext")(params, texts(9))
    for row, length, got in zip(np.asarray(texts(9)), LENGTHS, feat, strict=True):
        mean = sum((table[t] for t in row[:length]), np.zeros(DIM)) / max(length, 1)
        np.testing.assert_allclose(got, mean @ layer["kernel"] + layer["bias"], 1e-4)


@long
def test_textcnn_takes_the_maximum_over_windows_within_the_text():
    """As released, as a loop: 100 filters over 3, 4 and 5 words, ReLU, maximum."""
    params = started("textcnn")
    body = jax.tree.map(np.asarray, params["body"])
    feat = features("textcnn")(params, texts(9))
    for row, length, got in zip(np.asarray(texts(9)), LENGTHS, feat, strict=True):
        vector_LD, best = body["embedding"]["table"][row], []
        for name, words in (("conv1", 3), ("conv2", 4), ("conv3", 5)):
            filters = body[name]["0"]
            answers = [
                np.einsum("ld,ldf->f", vector_LD[i : i + words], filters["kernel"])
                for i in range(max(length - words, 0) + 1)
            ]
            best.append(np.maximum(np.max(answers, 0) + filters["bias"], 0))
        expected = np.concatenate(best) @ body["fc1"]["kernel"] + body["fc1"]["bias"]
        np.testing.assert_allclose(got, expected, atol=1e-4)


@long
def test_textcnn_drops_out_four_fifths_before_its_last_layer():
    """As released: Dropout(0.8) on the 300 maxima; without a key there is none."""
    params, train = started("textcnn"), features("textcnn", 9, True)
    x = jnp.tile(texts(9)[-1:], (200, 1))
    still = train(params, x)
    assert np.all(still == still[0])
    dropped = train(params, x, jax.random.key(0))
    assert len(np.unique(dropped[:, 0])) > 150
    spread = dropped.std(0).mean() / np.sqrt(200)
    assert np.abs(dropped.mean(0) - still[0]).mean() < 2 * spread  # grown by 1 / 0.2
    evaluated = features("textcnn")(params, x, jax.random.key(0))
    np.testing.assert_allclose(evaluated, still, atol=1e-5)


@long
@every(TEXT)
def test_bfloat16_is_close_to_float32(name):
    given = started(name), texts(9)
    exact = features(name)(*given)
    rough = features(name, compute_dtype="bfloat16")(*given)
    assert 0 < np.abs(exact - rough).max() < 0.05 * np.abs(exact).max()


# ------------------------------------------------------------- groups and errors
def test_ht0_is_the_papers_group_in_the_codes_order():
    """Client i uses architecture i mod 4, so 5 clients each at M = 20."""
    names = models.assign("Ht0", range(20))
    assert names[:4] == (
        "resnet8",
        "mobilenet_v2",
        "shufflenet_v2_x1_0",
        "efficientnet_b0",
    )
    assert {names.count(name) for name in names} == {5}
    assert models.members("HmRes18") == ("resnet18",)
    assert models.members("HmCNN") == ("cnn4",)


def test_code_groups_differ_in_the_placement_of_dropout_only():
    pairs = zip(models.GROUPS["Ht0"], models.GROUPS["Ht0_code"], strict=True)
    assert {code.removesuffix("_code") == clean for clean, code in pairs} == {True}


def test_every_group_consists_of_networks():
    for names in models.GROUPS.values():
        assert set(names) <= set(models.NETS)


def test_client_i_gets_entry_i_mod_n():
    names = models.GROUPS["digits"]
    assert models.assign("digits", (0, 1, 5, 7)) == tuple(
        names[i] for i in (0, 1, 1, 3)
    )
    assert models.assign("resnet4", range(2)) == ("resnet4", "resnet4")
    assert models.assign(("mlp", "cnn4"), (3,)) == ("cnn4",)
    assert models.assign("text", range(4)) == ("fasttext", "textcnn") * 2


IMAGES = "'{}' takes images [height, width, channels], but an input has shape {}"
BAD = [
    (lambda: build("resnet9"), "unknown network 'resnet9'. Did you mean 'resnet"),
    (lambda: models.assign("digit", (0,)), "group 'digit'. Did you mean 'digits'"),
    (lambda: models.assign(("mlq",), (0,)), "'mlq'. Did you mean 'mlp'"),
    (lambda: build("cnn4", (2,)), IMAGES.format("cnn4", "(2,)")),
    (lambda: build("resnet8", (28, 28)), IMAGES.format("resnet8", "(28, 28)")),
    (lambda: build("cnn4", (3, 3, 1)), "at least 4x4 pixels, not (3, 3, 1)"),
    (lambda: build("spiral_mlp", (8, 8, 1), dim=2), "shape (2,), not (8, 8, 1"),
    (lambda: build("spiral_mlp", (2,), dim=3), "2 features, but feat_dim is 3"),
    (lambda: build("mlp", dim=0), "feat_dim is 0; it must be at least 1"),
    (lambda: build("mlp", classes=0), "num_classes is 0; it must be at least 1"),
    (
        lambda: build("fasttext", (9,)),
        "network 'fasttext' reads texts, but the inputs are numbers. Networks",
    ),
    (
        lambda: build("mlp", (9,), vocab_size=WORDS),
        "network 'mlp' reads numbers, but the inputs are texts. Networks on t",
    ),
    (
        lambda: build("textcnn", (9, 2), vocab_size=WORDS),
        "take tokens [length], but an input has shape (9, 2)",
    ),
]


@every(BAD)
def test_bad_requests_are_named(make, message):
    with refused(message):
        make()


def test_filters_of_the_released_code_are_a_hundred_of_each_size():
    assert (text.FILTERS, text.SIZES, text.RATE) == (100, (3, 4, 5), 0.8)
