"""Images brought to one size, and normalised on the device."""

import jax
import numpy as np
from support.every import every

from jaxproto.core import batches
from jaxproto.data import registry, resize

RNG = np.random.default_rng(0)


def weights(size, wanted):
    """Triangle filter, as wide as what it shrinks: one row per pixel of the result."""
    scale = size / wanted
    middle = (np.arange(wanted)[:, None] + 0.5) * scale
    apart = np.abs(np.arange(size) + 0.5 - middle) / max(scale, 1)
    weight = np.maximum(1 - apart, 0)
    return weight / weight.sum(axis=1, keepdims=True)


@every([(40, 25), (9, 30), (6, 6), (16, 16)])
def test_resizing_is_the_antialiased_bilinear_filter(height, width):
    x = RNG.integers(0, 256, (height, width, 3), np.uint8)
    rows, columns = weights(height, 16), weights(width, 16)
    wanted = np.einsum("ih,hwc,jw->ijc", rows, x.astype(float), columns)
    made = resize.resize(x, 16)
    assert made.shape == (16, 16, 3) and made.dtype == np.uint8
    assert np.abs(made - wanted).max() < 1.5  # rounded once in each direction


def test_a_set_can_be_loaded_at_another_size_if_that_is_one():
    """Digits are uint8 images up to 255."""
    digits, small = registry.load("digits"), registry.load("digits", pixels=4)
    assert (digits.x.min(), digits.x.max(), digits.train_size) == (0, 255, 1797)
    assert small.x.shape == (1797, 4, 4, 1)
    assert np.array_equal(small.x[5], resize.resize(digits.x[5], 4))


@every([lambda f: f, jax.jit])
def test_normalising_on_the_device_is_bit_equal_to_doing_it_on_the_host(transform):
    """Normalised as float32 of numpy computes it, for all 256 values."""
    x = np.arange(256, dtype=np.uint8).reshape(4, 8, 8, 1)
    host = (x.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    device = np.asarray(transform(batches.normalise_inputs)(x))
    assert host.dtype == device.dtype == np.float32
    assert np.array_equal(host.view(np.int32), device.view(np.int32))
