"""The networks: their sizes, golden numbers, groups and error messages."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxproto import models, nn
from jaxproto.errors import UserError
from jaxproto.models import layers
from jaxproto.nn import ops

GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "networks.npz")
IMAGE = (32, 32, 3)


def build(name, shape=IMAGE, classes=10, dim=500, **options):
    return models.build(
        name, input_shape=shape, num_classes=classes, feat_dim=dim, **options
    )


def shapes(net):
    """Shapes of params and norm, without computing anything."""
    return jax.eval_shape(net.init, jax.random.key(0))


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


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


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("classes", "dim"), [(10, 500), (200, 512)])
def test_parameter_counts_are_the_released_ones(name, classes, dim):
    """As PyTorch counts them: the body's count, and d * K + K for the head."""
    params, norm = shapes(build(name, classes=classes, dim=dim))
    assert (size(params["body"]), size(norm)) == BODIES[name]
    assert size(params["head"]) == dim * classes + classes


TOTALS = {  # of the PyTorch originals
    ("resnet8", 10, 500): 1_237_714,
    ("mobilenet_v2", 100, 512): 2_275_172,
    ("shufflenet_v2_x1_0", 200, 500): 1_353_804,
    ("efficientnet_b0", 100, 500): 4_057_648,
    ("resnet18", 10, 512): 11_181_642,
}


@pytest.mark.parametrize("case", TOTALS)
def test_totals_with_the_head_are_the_printed_ones(case):
    name, classes, dim = case
    assert size(shapes(build(name, classes=classes, dim=dim))[0]) == TOTALS[case]


def test_cnn4_at_64_pixels_has_the_released_count():
    """As PyTorch counts them: 5,597,010 at K = 10, d = 500."""
    assert size(shapes(build("cnn4", (64, 64, 3)))[0]) == 5_597_010


def test_cnn4_d_has_feat_dim_hidden_units():
    params, _ = shapes(build("cnn4_d", dim=100))
    assert params["body"]["fc1"]["0"]["kernel"].shape == (1600, 100)


def test_spiral_network_has_242_parameters():
    """ProtoNorm's spiral network: 2-16-8-4-2-6, no bias in the head."""
    params, norm = shapes(build("spiral_mlp", (2,), 6, 2))
    assert size(params) == 242
    assert list(params["head"]) == ["kernel"]
    assert not norm


@pytest.mark.parametrize("name", models.NETS)
@pytest.mark.parametrize("train", [False, True])
def test_apply_keeps_shapes_and_trees(name, train):
    shape, dim = ((2,), 2) if name == "spiral_mlp" else ((8, 8, 1), 7)
    options, dtype = {}, jnp.float32
    if name.removesuffix("_code") in models.GROUPS["text"]:
        shape, options, dtype = (8,), {"vocab_size": 9}, jnp.int32
    net = build(name, shape, 3, dim, **options)
    params, norm = shapes(net)
    x = jax.ShapeDtypeStruct((4, *shape), dtype)
    out = jax.eval_shape(lambda *a: net.apply(*a, train), params, norm, x)
    assert out.feat.shape == (4, dim)
    assert out.logits.shape == (4, 3)
    assert out.norm == norm
    assert set(params) == {"body", "head"}
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves((params, out))}
    assert dtypes == {"float32"}


@pytest.mark.parametrize("name", ["cnn4", "resnet4"])
@pytest.mark.parametrize("pixels", [4, 8, 13, 15, 16, 17, 28, 64])
def test_any_image_size_fits(name, pixels):
    net = build(name, (pixels, pixels, 1))
    x = jax.ShapeDtypeStruct((2, pixels, pixels, 1), jnp.float32)
    out = jax.eval_shape(lambda *a: net.apply(*a, True), *shapes(net), x)
    assert out.feat.shape == (2, 500)


@pytest.mark.parametrize("name", [*models.GROUPS["Ht0"], "resnet18"])
@pytest.mark.parametrize(("pixels", "channels"), [(28, 1), (32, 3), (64, 3)])
def test_the_usual_images_fit(name, pixels, channels):
    shape = (pixels, pixels, channels)
    net = build(name, shape)
    x = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    trees = jax.eval_shape(net.init, jax.random.key(0))
    out = jax.eval_shape(lambda *a: net.apply(*a, True, jax.random.key(0)), *trees, x)
    assert (out.feat.shape, out.logits.shape) == ((2, 500), (2, 10))
    assert out.norm == trees[1]


def test_evaluation_leaves_statistics_alone_and_training_moves_them():
    net = build("resnet4", (8, 8, 1), dim=8)
    params, norm = net.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 8, 8, 1))
    for train in (False, True):
        new = net.apply(params, norm, x, train).norm
        pairs = zip(jax.tree.leaves(norm), jax.tree.leaves(new), strict=True)
        same = [bool(jnp.array_equal(a, b)) for a, b in pairs]
        assert all(same) if not train else not any(same)


def test_head_is_the_last_layer_of_apply():
    for name, shape, dim in (("mlp", (8, 8, 1), 9), ("spiral_mlp", (2,), 2)):
        net = build(name, shape, 4, dim)
        params, norm = net.init(jax.random.key(0))
        out = net.apply(params, norm, jnp.ones((3, *shape)), False)
        np.testing.assert_allclose(
            net.head(params["head"], out.feat), out.logits, rtol=1e-6
        )


def test_init_depends_on_the_key_only_and_maps_over_clients():
    net = build("resnet4", (8, 8, 1), dim=8)
    keys = jax.random.split(jax.random.key(3), 2)
    stacked = jax.vmap(net.init)(keys)
    for i, key in enumerate(keys):
        one, same = net.init(key), jax.tree.map(lambda a, i=i: a[i], stacked)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), one, same
        )
    kernel = stacked[0]["body"]["conv1"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])


def test_initial_values_have_pytorchs_spread():
    """kaiming_uniform(a = sqrt 5) is U(-1, 1) / sqrt(fan_in); residual networks draw
    convolutions from N(0, 2 / fan_out)."""
    linear = build("mlp").init(jax.random.key(0))[0]["body"]["fc1"]
    for leaf in linear.values():
        bound = 1 / np.sqrt(32 * 32 * 3)
        assert float(jnp.max(jnp.abs(leaf))) <= bound
        assert float(jnp.std(leaf)) == pytest.approx(bound / np.sqrt(3), rel=0.1)
    kernel = build("resnet4").init(jax.random.key(0))[0]["body"]["conv1"]["kernel"]
    expected = np.sqrt(2 / (49 * 64))
    assert float(jnp.std(kernel)) == pytest.approx(expected, rel=0.05)


@pytest.mark.long
def test_initial_values_are_torchvisions():
    """He's normal by fan-out (depthwise: k * k * C), ShuffleNetV2 PyTorch's
    default; torchvision's squeeze-excite biases are 0; the head has the default."""
    names = ("mobilenet_v2", "efficientnet_b0", "shufflenet_v2_x1_0")
    nets = [build(name, (8, 8, 3), 3, 16) for name in names]
    mob, eff, shuf = (jax.jit(net.init)(jax.random.key(0))[0] for net in nets)
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
    draws = layers.draw(jax.random.key(0), {"uniform": 7, "normal": 4})
    parts = [draws.uniform((3,)), draws.normal((2, 2)), draws.uniform((2, 2))]
    flat = np.concatenate([np.ravel(part) for part in parts])
    assert len(set(flat.tolist())) == 11
    assert draws.used == {"uniform": 7, "normal": 4}


def test_relu6_has_no_gradient_at_its_ends():
    x = jnp.array([-1.0, 0.0, 1.0, 6.0, 7.0])
    got, grad = jax.vjp(lambda x: layers.relu6(x, None), x)
    np.testing.assert_array_equal(got, [0, 0, 1, 6, 6])
    np.testing.assert_array_equal(grad(jnp.ones(5))[0], [0, 0, 1, 0, 0])


@pytest.mark.long
def test_ops_do_not_change_the_numbers():
    fast, slow = (build("resnet6", (9, 9, 2), ops=o) for o in (ops.CPU, ops.LAX))
    params, norm = fast.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 9, 9, 2))
    for train in (False, True):
        one, other = (jax.jit(n.apply, static_argnums=3) for n in (fast, slow))
        got, expected = (f(params, norm, x, train) for f in (one, other))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
            got,
            expected,
        )


@pytest.mark.parametrize(("c", "d"), [(256, 500), (1280, 512), (1024, 64)])
def test_channel_pool_is_pytorchs(c, d):
    """../shared/golden pool_*: AdaptiveAvgPool1d of PyTorch 2.13."""
    given, expected = (GOLDEN[f"pool_{c}_{d}/{k}"] for k in ("input", "output"))
    np.testing.assert_allclose(nn.channel_pool(given, d), expected, atol=1e-6)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build("resnet9"), r"unknown network 'resnet9'. Did you mean 'resnet"),
        (lambda: models.assign("digit", (0,)), r"group 'digit'. Did you mean 'digits'"),
        (lambda: models.assign(("mlq",), (0,)), r"'mlq'. Did you mean 'mlp'"),
        (lambda: build("cnn4", (2,)), r"'cnn4' takes images .* shape \(2,\)"),
        (lambda: build("resnet8", (28, 28)), r"'resnet8' takes images .* \(28, 28\)"),
        (lambda: build("cnn4", (3, 3, 1)), r"at least 4x4 pixels, not \(3, 3, 1\)"),
        (lambda: build("spiral_mlp", (8, 8, 1), dim=2), r"shape \(2,\), not \(8, 8, 1"),
        (lambda: build("spiral_mlp", (2,), dim=3), r"2 features, but feat_dim is 3"),
        (lambda: build("mlp", dim=0), r"feat_dim is 0; it must be at least 1"),
        (lambda: build("mlp", classes=0), r"num_classes is 0; it must be at least 1"),
    ],
)
def test_bad_requests_are_named(make, message):
    with pytest.raises(UserError, match=message):
        make()
