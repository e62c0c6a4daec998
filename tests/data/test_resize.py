"""Images brought to one size, and normalised on the device."""

import jax
import numpy as np
from support.every import every
from support.refusal import refused

from jaxproto import batches
from jaxproto.data import decoded_cache, registry, resize

RNG = np.random.default_rng(0)


def image(height, width, channels=3):
    return RNG.integers(0, 256, (height, width, channels), np.uint8)


def weights(size, wanted):
    """Triangle filter, as wide as what it shrinks: one row per pixel of the result."""
    scale = size / wanted
    middle = (np.arange(wanted)[:, None] + 0.5) * scale
    apart = np.abs(np.arange(size) + 0.5 - middle) / max(scale, 1)
    weight = np.maximum(1 - apart, 0)
    return weight / weight.sum(axis=1, keepdims=True)


@every([(40, 25), (9, 30), (6, 6), (16, 16)])
def test_resizing_is_the_antialiased_bilinear_filter(height, width):
    x = image(height, width)
    rows, columns = weights(height, 16), weights(width, 16)
    wanted = np.einsum("ih,hwc,jw->ijc", rows, x.astype(float), columns)
    made = resize.resize(x, 16)
    assert made.shape == (16, 16, 3) and made.dtype == np.uint8
    assert np.abs(made - wanted).max() < 1.5  # rounded once in each direction


def test_parts_are_resized_into_one_array_and_the_right_size_is_left_alone():
    x = image(8, 8)
    assert resize.resize(x, 8) is x
    parts = [np.stack([image(6, 6) for _ in range(n)]) for n in (3, 2)]
    made = resize.resize_and_join("made", parts, 4, decoded_cache.store_in_memory)
    each = [resize.resize(x, 4) for part in parts for x in part]
    assert np.array_equal(made, np.stack(each))
    same = resize.resize_and_join("made", parts, 0, decoded_cache.store_in_memory)
    assert np.array_equal(same, np.concatenate(parts))


def test_a_set_can_be_loaded_at_another_size_if_that_is_one():
    digits, small = registry.load("digits"), registry.load("digits", pixels=4)
    assert small.x.shape == (1797, 4, 4, 1)
    assert np.array_equal(small.x[5], resize.resize(digits.x[5], 4))
    for size in (-1, 5_000):
        with refused(f"data.pixels is {size}. Give the height"):
            registry.load("digits", pixels=size)


@every([lambda f: f, jax.jit])
def test_normalising_on_the_device_is_bit_equal_to_doing_it_on_the_host(transform):
    """Normalised as float32 of numpy computes it, for all 256 values."""
    x = np.arange(256, dtype=np.uint8).reshape(4, 8, 8, 1)
    host = (x.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    device = np.asarray(transform(batches.normalise_inputs)(x))
    assert host.dtype == device.dtype == np.float32
    assert np.array_equal(host.view(np.int32), device.view(np.int32))
