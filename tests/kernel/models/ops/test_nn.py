"""The operations: fast form against `lax` form, and both against their definition."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import every
from support.fast_jit import jit

from jaxproto.models import ops as nn
from jaxproto.models.ops import channel_sums, conv, norm, ops, pool, winograd
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


def image(size):
    """Random images [3, H, W, 6]; size is an int or (H, W)."""
    size = size if isinstance(size, tuple) else (size, size)
    return normal(3, *size, 6)


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


@every(WINDOWS[2:6])
def test_grouped_as_matmul_equals_lax(k, s, p, n):
    arrays = image(n), normal(k, k, 2, 9)
    grouped = at(conv.grouped_matmul, s, p, 3)
    assert_same(at(conv.conv_lax, s, p, 3), arrays, grouped)


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


@every(["float32", "bfloat16"])
def test_a_shuffle_by_products_has_the_same_numbers_and_gradients(dtype):
    a, b = (jnp.asarray(image(4) + i, dtype) for i in range(2))
    forms = ops.interleave, ops.interleave_by_product
    both = jit(value_and_grads, static_argnums=0)
    one, other = (both(form, a, b) for form in forms)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert np.array_equal(one[0][..., 0::2], a)
    assert np.array_equal(one[0][..., 1::2], b)


def test_max_pool_keeps_nan_and_its_gradient_of_ties_goes_to_the_first():
    """In row-major order."""
    x = jnp.asarray([[0.0, 1.0], [1.0, 1.0]])[None, :, :, None]
    for form in (pool.max_pool_chain, pool.max_pool_lax):
        grad = jit(jax.grad(lambda x, form=form: jnp.sum(form(x, 2, 2))))(x)
        np.testing.assert_array_equal(grad[0, :, :, 0], [[0.0, 1.0], [0.0, 0.0]])
    ones = np.where(np.eye(4, dtype=bool), np.nan, 1).reshape(4, 2, 2, 1)
    assert jnp.isnan(jit(at(pool.max_pool_chain, 2, 2))(ones.astype(np.float32))).all()


def test_batch_norm_gradient_is_that_of_its_definition_and_of_one_element_finite():
    def plain(x, scale, bias):
        mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        return nn.with_stats(x, scale, bias, mean, var)

    scale, bias = normal(2, 6) + 1.0
    x = 3.0 * image(4) + 1.0
    assert_same(plain, (x, scale, bias), lambda *a: norm.batch_norm(*a)[0])
    ones, zeros = jnp.ones(4), jnp.zeros(4)
    given = ones[None], ones, zeros, zeros, ones
    got = nn.with_batch(*given, channel_sums.PLAIN)
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
