"""The operations: fast form against `lax` form, and both against their definition."""

import functools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import every
from support.fast_jit import jit

from jaxproto.models import ops as nn
from jaxproto.models.ops import (
    channel_shuffle,
    channel_sums,
    conv,
    norm,
    ops,
    pool,
    trim_padding,
    winograd,
)
from jaxproto.models.ops.row_product import product

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it


def normal(*shape):
    """Draws equal values each time with numpy; JAX would compile for each shape."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


WINDOWS = [  # kernel, stride, padding, input size; odd height and even width
    (k, s, p, (9, 6))
    for k, p in ((1, 0), (3, 1), (5, 0), (5, 2), (7, 3))
    for s in (1, 2)
] + [(3, 1, 1, (1, 2)), (3, 2, 1, (2, 1)), (5, 1, 2, (2, 1)), (7, 2, 3, (1, 3))]
WINDOWS += [(k, 1, p, (5, 11)) for k in (3, 5) for p in (0, 1, k - 1)]


def image(size, channels=6, batch=3):
    """A random image [B, H, W, C]; size is an int or (H, W)."""
    size = size if isinstance(size, tuple) else (size, size)
    return normal(batch, *size, channels)


def at(function, *static):
    return lambda *arrays: function(*arrays, *static)


def value_and_grads(function, *args):
    """A function's value, and gradients of a weighted sum of it."""
    out = function(*args)
    weight = jnp.asarray(normal(*out.shape), out.dtype)
    pulled = jax.vjp(function, *args)[1](weight)
    return out, pulled


def assert_same(reference, args, *forms):
    """Forms agree with a function in value and gradients to 1e-5 of the largest."""
    functions = (reference, *forms)
    both = jit(lambda *args: [value_and_grads(f, *args) for f in functions])
    want, *found = (jax.tree.leaves(each) for each in both(*args))
    scale = max(float(jnp.max(jnp.abs(a))) for a in want)
    for i, got in enumerate(found):
        for a, b in zip(got, want, strict=True):
            close = np.testing.assert_allclose
            close(a, b, atol=1e-5 * scale, rtol=1e-5, err_msg=f"form {i}")


@every(WINDOWS)
def test_every_form_of_a_convolution_equals_lax(k, s, p, n):
    given = conv.conv_of_few, conv.conv_by_row, conv.conv_by_tap
    forms = [at(form, s, p) for form in given]
    if s == 1 and k in (3, 5):
        forms.append(at(winograd.conv_winograd, p))
    arrays = image(n), normal(k, k, 6, 5)
    assert_same(at(conv.conv_lax, s, p), arrays, *forms)
    arrays = image(n), normal(k, k, 1, 6)
    shift = at(conv.depthwise_shift, s, p)
    assert_same(at(conv.depthwise_lax, s, p), arrays, shift)


@every([(c, k, s) for c in (6, 16, 32) for k in (3, 5) for s in (1, 2)])
def test_the_form_that_is_chosen_equals_lax(channels, k, s):
    args = image(6, channels), normal(k, k, channels, channels)
    assert_same(at(conv.conv_lax, s, 1), args, at(conv.conv_matmul, s, 1))
    assert winograd.fits(*args, s) == (channels == 32 and s == 1)


@every(WINDOWS[2:6])
def test_grouped_as_matmul_equals_lax(k, s, p, n):
    arrays = image(n), normal(k, k, 2, 9)
    grouped = at(conv.grouped_matmul, s, p, 3)
    assert_same(at(conv.conv_lax, s, p, 3), arrays, grouped)


@every([3, 5])
def test_winograds_conv_loses_hardly_any_digits(k):
    """Against float64, at the size of real networks; a direct one: 2e-7 to 1e-6."""
    x, kernel = np.maximum(image(14, 64, 8), 0), normal(k, k, 64, 64) / k / 8
    got = jit(at(winograd.conv_winograd, k // 2))(x, kernel)
    around = ((0, 0), (k // 2,) * 2, (k // 2,) * 2, (0, 0))
    x_ = np.pad(x.astype(float), around)
    window = np.lib.stride_tricks.sliding_window_view(x_, (k, k), (1, 2))
    kernel = kernel.astype(float)
    exact = np.einsum("bhwcij,ijcd->bhwd", window, kernel, optimize=True)
    assert np.abs(got - exact).max() < 5e-6 * np.abs(exact).max()


ROUNDED = {  # form, what follows x and kernel, shapes
    "1x1": (conv.conv_bfloat16, (1, 0), (2, 6, 6, 32), (1, 1, 32, 8)),
    "few channels": (conv.conv_bfloat16, (2, 1), (2, 9, 9, 3), (5, 5, 3, 8)),
    "by tap": (conv.conv_bfloat16, (2, 1), (2, 9, 9, 16), (3, 3, 16, 8)),
    "by row": (conv.conv_bfloat16, (1, 2), (2, 6, 6, 16), (5, 5, 16, 8)),
    "winograd": (conv.conv_bfloat16, (1, 2), (2, 6, 6, 32), (5, 5, 32, 32)),
    "few rows": (product, ("bfloat16",), (10, 512), (512, 256)),
    "many rows": (product, ("bfloat16",), (200, 6), (6, 4)),
}


def bfloat16(x):
    return jnp.asarray(x).astype("bfloat16").astype("float32")


@every(ROUNDED)
def test_products_in_bfloat16_are_those_of_float32_of_rounded_operands(name):
    form, static, *shapes = ROUNDED[name]
    args = [normal(*shape) for shape in shapes]
    exact = jnp.matmul if form is product else at(conv.conv_lax, *static)
    got, back = jax.vjp(at(form, *static), *args)
    want, right = jax.vjp(exact, *map(bfloat16, args))
    grad = normal(*want.shape)
    pairs = zip((got, *back(grad)), (want, *right(bfloat16(grad))), strict=True)
    for a, b in pairs:
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())


POOLS = [(2, 2, 0, (9, 6)), (3, 3, 0, (9, 7)), (1, 1, 0, (2, 3))]
POOLS += [(3, 2, 1, (9, 6)), (3, 1, 1, (5, 4)), (3, 2, 1, (1, 2))]


@every(POOLS)
def test_a_pool_as_a_chain_equals_lax(k, s, p, n):
    chain, lax = (at(f, k, s, p) for f in (pool.max_pool_chain, pool.max_pool_lax))
    assert_same(lax, (image(n),), chain)


@every([(20, 20, 20), (32, 5, 32), (200, 0, 32), (200, 33, 48), (50, 49, 50)])
def test_a_batch_takes_the_shortest_length_that_holds_it(longest, used, taken):
    cut_x = functools.partial(
        trim_padding.trim_by_switch, lambda x: x[:, 0] * 0 + x.shape[1]
    )
    found = jit(cut_x)(np.ones((2, longest), np.float32), np.int32(used))
    assert found.tolist() == [taken, taken]


@every([(40, 6, 4), (40, 3, 4), (15, 6, 4), (10, 512, 256), (17, 512, 256)])
def test_product_has_the_gradients_of_a_matrix_product(rows, inputs, outputs):
    arrays = normal(rows, inputs), normal(inputs, outputs)
    assert_same(jnp.matmul, arrays, product)


@every(["float32", "bfloat16"])
def test_a_shuffle_by_products_has_the_same_numbers_and_gradients(dtype):
    a, b = (jnp.asarray(image(4) + i, dtype) for i in range(2))
    forms = channel_shuffle.interleave, channel_shuffle.interleave_by_product
    both = jit(value_and_grads, static_argnums=0)
    one, other = (both(form, a, b) for form in forms)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert np.array_equal(one[0][..., 0::2], a)
    assert np.array_equal(one[0][..., 1::2], b)


FORMS = {
    "conv": (at(conv.conv_matmul, 2, 1), (3, 3, 4, 5)),
    "winograd": (at(winograd.conv_winograd, 1), (3, 3, 4, 5)),
    "depthwise": (at(conv.depthwise_shift, 2, 1), (3, 3, 1, 4)),
    "grouped": (at(conv.grouped_matmul, 2, 1, 2), (3, 3, 2, 6)),
    "max_pool": (lambda x, _: pool.max_pool_chain(x, 3, 2, 1), ()),
    "max_pool_disjoint": (lambda x, _: pool.max_pool_chain(x, 2, 2), ()),
    "product": (lambda x, w: product(x.reshape(-1, 4), w), (4, 2)),
    "channel_pool": (lambda x, _: nn.channel_pool(x[:, 0, 0], 5), ()),
    "batch_norm": (lambda x, w: norm.batch_norm(x, w[0], w[1])[0], (2, 4)),
}


@every(FORMS)
def test_vmap_over_clients_equals_one_by_one_and_a_loop(name):
    function, shape = FORMS[name]
    both = functools.partial(value_and_grads, function)
    arrays_K = normal(2, 3, 6, 5, 4), normal(2, *shape)
    mapped = jit(jax.vmap(both))(*arrays_K)
    looped = jit(lambda *a: jax.lax.map(lambda b: both(*b), a))(*arrays_K)
    for a, b in zip(jax.tree.leaves(mapped), jax.tree.leaves(looped), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5)


def test_max_pool_keeps_nan_and_its_gradient_of_ties_goes_to_the_first():
    """In row-major order."""
    x = jnp.asarray([[0.0, 1.0], [1.0, 1.0]])[None, :, :, None]
    for form in (pool.max_pool_chain, pool.max_pool_lax):
        grad = jit(jax.grad(lambda x, form=form: jnp.sum(form(x, 2, 2))))(x)
        np.testing.assert_array_equal(grad[0, :, :, 0], [[0.0, 1.0], [0.0, 0.0]])
    ones = np.where(np.eye(4, dtype=bool), np.nan, 1).reshape(4, 2, 2, 1)
    assert jnp.isnan(jit(at(pool.max_pool_chain, 2, 2))(ones.astype(np.float32))).all()


def test_the_platform_decides_the_form():
    chosen = [nn.ops_for(name) for name in ("cpu", "gpu", "tpu", "unknown")]
    assert chosen == [ops.CPU, ops.GPU, ops.TPU, ops.LAX]


@every([(256, 500), (256, 64), (1280, 512), (7, 3)])
def test_channel_pool_is_the_mean_of_the_papers_windows(c, d):
    """Windows of PyTorch's AdaptiveAvgPool1d: floor(iC/d) to ceil((i+1)C/d)-1."""
    matrix = np.zeros((c, d))
    for i in range(d):
        window = slice(i * c // d, int(np.ceil((i + 1) * c / d)))
        matrix[window, i] = 1 / (window.stop - window.start)
    args = (normal(4, c),)
    assert_same(lambda x: x @ matrix, args, lambda x: nn.channel_pool(x, d))
    np.testing.assert_array_equal(nn.channel_pool(*args, c), *args)


@jit
def normed(x, scale, bias, mean, var):
    out, *batch = norm.batch_norm(x, scale, bias)
    return out, *norm.update_stats(mean, var, *batch, x.size // x.shape[-1])


@every([(8, 3, 2, 5), (32, 5)])
def test_batch_norm_is_pytorchs(*shape):
    """A biased variance normalises, the unbiased one is remembered."""
    rng = np.random.default_rng(0)
    x, held = rng.normal(2, 3, shape), rng.uniform(0.5, 1.5, (4, shape[-1]))
    (scale, bias, mean, var), axes = held, tuple(range(len(shape) - 1))
    m, v, n = x.mean(axes), x.var(axes), x.size // shape[-1]
    out = (x - m) / np.sqrt(v + 1e-5) * scale + bias
    expected = out, 0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v * n / (n - 1)
    got = normed(np.float32(x), *np.float32(held))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_batch_norm_gradient_is_that_of_its_definition_and_of_one_element_finite():
    def plain(x, scale, bias):
        mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        return nn.with_stats(x, scale, bias, mean, var)

    scale, bias = normal(2, 6) + 1.0
    x = 3.0 * image(4) + 1.0
    assert_same(plain, (x, scale, bias), lambda *a: norm.batch_norm(*a)[0])
    ones, zeros = jnp.ones(4), jnp.zeros(4)
    got = normed(ones[None], ones, zeros, zeros, ones)
    for one, expected in zip(got, (0.0, 0.1, 0.9), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-6)


@every([(0.0, 0.0), (30.0, 29.0)])
def test_batch_norm_of_one_pass_equals_that_of_two(mean, near):
    """Even where the mean is 30 deviations from 0, if the running mean is close."""
    scale, bias = normal(2, 6) + 1.0
    x, near_C = image(4) + np.float32(mean), jnp.full(6, near)

    def form(sums):
        return lambda x, scale: norm.batch_norm(x, scale, bias, near_C, sums)[0]

    assert_same(form(channel_sums.PLAIN), (x, scale), form(channel_sums.ONE_PASS))
    with_batch = jit(nn.with_batch, static_argnums=5)
    sums = channel_sums.ONE_PASS, channel_sums.PLAIN
    one, two = (with_batch(x, scale, bias, near_C, jnp.ones(6), s) for s in sums)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
