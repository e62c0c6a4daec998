"""The networks: sizes and trees, first values, groups and errors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import check_every, every
from support.fast_jit import jit
from support.networks import GOLDEN, KEY, build, dtypes, output, shapes, size, small
from support.refusal import refused

from jaxproto import models
from jaxproto.models import layers, ops

LARGE = (*models.GROUPS["Ht0"], "resnet18")
WIDE = (*models.GROUPS["Ht0_code"], "resnet18_gn", "resnet34", "googlenet")
HUGE = ("resnet50", "resnet101", "resnet152", "vit_b_16", "vit_b_32")

RELEASED = [  # of the PyTorch originals: body, running statistics; K, d, printed total
    ("resnet4", 83_520, 384),
    ("resnet6", 313_664, 1_152),
    ("resnet8", 1_232_704, 2_688, 10, 500, 1_237_714),
    ("resnet10", 4_905_792, 5_760),
    ("resnet18", 11_176_512, 9_600, 10, 512, 11_181_642),
    ("resnet18_gn", 11_176_512, 0),
    ("mobilenet_v2", 2_223_872, 34_112, 100, 512, 2_275_172),
    ("mobilenet_v2_code", 2_223_872, 34_112),
    ("shufflenet_v2_x1_0", 1_253_604, 16_180, 200, 500, 1_353_804),
    ("efficientnet_b0", 4_007_548, 42_016, 100, 500, 4_057_648),
    ("efficientnet_b0_code", 4_007_548, 42_016),
    ("cnn4", 873_408, 0),
]
DEEP = [  # torchvision's totals are those of its own feature widths
    ("googlenet", 5_599_904, 14_560, 1000, 1024, 6_624_904),
    ("resnet34", 21_284_672, 17_024, 1000, 512, 21_797_672),
    ("resnet50", 23_508_032, 53_120, 1000, 2048, 25_557_032),
    ("resnet101", 42_500_160, 105_344, 1000, 2048, 44_549_160),
    ("resnet152", 58_143_808, 151_424, 1000, 2048, 60_192_808),
]

LONG = functools.partial(pytest.param, marks=pytest.mark.long)


@pytest.mark.parametrize("rows", [RELEASED, LONG(DEEP)], ids=["usual", "deep"])
def test_parameter_counts_are_the_released_ones(rows):
    """As PyTorch counts them: the body's count, and d * K + K for the head."""

    def check(name, body, statistics, classes=200, dim=512, total=None):
        params, norm = shapes(build(name, classes=classes, dim=dim))
        assert (size(params["body"]), size(norm)) == (body, statistics)
        assert size(params["head"]) == dim * classes + classes
        assert total in (None, size(params))

    check_every(rows, check)


def test_networks_of_other_inputs_have_the_released_sizes():
    """The spiral network is 2-16-8-4-2-6, without a bias in the head."""
    assert size(shapes(build("cnn4", (64, 64, 3)))[0]) == 5_597_010
    params, _ = shapes(build("cnn4_d", dim=100))
    assert params["body"]["fc1"]["0"]["kernel"].shape == (1600, 100)
    for patch, total in ((16, 86_567_656), (32, 88_224_232)):  # torchvision's at 224
        params, norm = shapes(build(f"vit_b_{patch}", (224, 224, 3)))
        assert size(params["body"]) == total - 768 * 1000 - 1000 and not norm
    params, norm = shapes(build("spiral_mlp", (2,), 6, 2))
    assert size(params) == 242 and list(params["head"]) == ["kernel"] and not norm


def check_apply(name, *image):
    sizes = small(name, *image)
    net, shape = models.build(name, **sizes), sizes["input_shape"]
    dtype = jnp.int32 if "vocab_size" in sizes else jnp.float32
    params, norm = shapes(net)
    assert set(params) == {"body", "head"}
    for train in (False, True):
        out = output(net, (params, norm), (4, *shape), train, dtype, KEY)
        assert (out.feat.shape, out.logits.shape) == ((4, sizes["feat_dim"]), (4, 3))
        assert out.norm == norm
        assert dtypes((params, out)) == {"float32"}
    logits = jax.eval_shape(net.head, params["head"], out.feat)
    assert logits.shape == (4, 3)


LARGEST = {*LARGE, *WIDE, *HUGE}
SIZES = [(name, (n, n, 1)) for name in ("cnn4", "resnet4") for n in (4, 13, 15, 28)]
USUAL = [(name, (n, n, 3)) for name in LARGE for n in (28, 32, 64)]
SMALL = [*sorted({*models.NETS} - LARGEST), *SIZES]
BIG = [*sorted(LARGEST), *USUAL]


@pytest.mark.parametrize("cases", [SMALL, LONG(BIG)], ids=["small", "big"])
def test_apply_keeps_shapes_and_trees(cases):
    check_every(cases, check_apply)


def test_statistics_of_batch_norm_move_in_training_only():
    net = build("resnet4", (8, 8, 1), dim=8)
    params, norm = jit(net.init)(KEY)
    x, apply = jax.random.normal(KEY, (4, 8, 8, 1)), jit(net.apply, static_argnums=3)
    for train in (False, True):
        new = apply(params, norm, x, train).norm
        same = jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), norm, new)
        assert {*jax.tree.leaves(same)} == {not train}


@every([("mlp", (8, 8, 1), 9), ("spiral_mlp", (2,), 2), ("cnn4+head=6", (8, 8, 1), 9)])
def test_head_is_the_last_layer_of_apply(name, shape, dim):
    net = build(name, shape, 4, dim)
    params, norm = jit(net.init)(KEY)
    out = jit(net.apply, static_argnums=3)(params, norm, np.ones((3, *shape)), False)
    head = jit(net.head)(params["head"], out.feat)
    np.testing.assert_allclose(head, out.logits, rtol=1e-6)


def test_linear_layers_have_pytorchs_spread_and_no_two_arrays_share_their_draws():
    """kaiming_uniform(a = sqrt 5) is U(-1, 1) / sqrt(fan_in)."""
    for leaf in jit(build("mlp").init)(KEY)[0]["body"]["fc1"].values():
        bound = 1 / np.sqrt(32 * 32 * 3)
        assert np.max(np.abs(leaf)) <= bound
        assert np.std(leaf) == pytest.approx(bound / np.sqrt(3), rel=0.1)
    draws = layers.draw_initial(KEY, {"uniform": 7, "normal": 4})
    parts = [draws.uniform((3,)), draws.normal((2, 2)), draws.uniform((2, 2))]
    assert len(set(np.concatenate([np.ravel(part) for part in parts]).tolist())) == 11
    assert draws.used == {"uniform": 7, "normal": 4}


def test_relu6_has_no_gradient_at_its_ends():
    x = np.float32([-1.0, 0.0, 1.0, 6.0, 7.0])
    value_and_grad = jax.value_and_grad(lambda x: layers.relu6(x, None))
    got, grad = jit(jax.vmap(value_and_grad))(x)
    np.testing.assert_array_equal(got, [0, 0, 1, 6, 6])
    np.testing.assert_array_equal(grad, [0, 0, 1, 0, 0])


@every([(256, 500), (1280, 512), (1024, 64)])
def test_channel_pool_is_pytorchs(c, d):
    """AdaptiveAvgPool1d of PyTorch 2.13."""
    given, expected = (GOLDEN[f"pool_{c}_{d}/{k}"] for k in ("input", "output"))
    np.testing.assert_allclose(ops.channel_pool(given, d), expected, atol=1e-6)


def test_client_i_has_entry_i_of_its_group_and_code_groups_differ_in_dropout_only():
    """Ht0 in the code's order, so 5 clients each at M = 20."""
    names = models.assign_networks("Ht0", range(20))
    order = "resnet8", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0"
    assert names == order * 5
    assert models.assign_networks(("mlp", "cnn4"), (3, 0)) == ("cnn4", "mlp")
    pairs = zip(models.GROUPS["Ht0"], models.GROUPS["Ht0_code"], strict=True)
    assert {code.removesuffix("_code") == clean for clean, code in pairs} == {True}


def test_groups_with_options_in_their_names_are_htfllibs():
    """HtFLlib: client i has network i and head i, each mod their number."""
    names = models.GROUPS["HtFE-img-8-HtC-img-4"]
    assert (names[1], names[7]) == ("googlenet+head=512", "resnet152+head=128")
    assert [len(models.GROUPS[f"HtFE-sen-{n}"]) for n in (2, 3, 5, 8)] == [2, 3, 5, 8]
    assert models.GROUPS["HtFE-sen-5"][-1] == "harcnn+layers=3+stride=1"


WORDS = {"vocab_size": 30}
BAD = [  # more in `support/bad_rows.py`; arguments of `build`, words of the message
    (("cnn4+haed=3",), {}, "option of cnn4 'haed'. Did you mean 'head'"),
    (("mlp+head=3",), {}, "unknown option of mlp 'head'. There are: none."),
    (("cnn4+head=3-0",), {}, "head is '3-0'. Give whole numbers joined by hyp"),
    (("cnn4", (3, 3, 1)), {}, "at least 4x4 pixels, not (3, 3, 1)"),
    (("vit_b_32", (28, 28, 1)), {}, "pixels, but an image has 28x28"),
    (("spiral_mlp", (2,), 6, 3), {}, "2 features, but feat_dim is 3"),
    (("harcnn+layers=4", (64, 3, 1)), {}, "has 1 to 3 layers, not 4"),
    (("harcnn", (12, 3, 1)), {}, "enough steps, but an input has shape (12"),
    (("transformer", (9,), 3, 12), WORDS, "feat_dim is 12. Set model.feat_dim to a m"),
    (("mlp",), {"dim": 0}, "feat_dim is 0; it must be at least 1"),
    (("mlp", (9,)), WORDS, "reads numbers, but the inputs are texts. Networks on t"),
    (("textcnn", (9, 2)), WORDS, "take tokens [length], but an input has shape (9, 2"),
]


@every(BAD)
def test_bad_requests_are_named(args, options, message):
    with refused(message):
        build(*args, **options)
