"""Scale of inputs: pixels are pixels in any type, and what networks see is said."""

import numpy as np
from support.every import check_every
from support.refusal import refused

from jaxproto.core import batches
from jaxproto.data import dataset, scale

RNG, Y = np.random.default_rng(0), np.arange(12) % 3
PIXELS = RNG.integers(0, 256, (12, 8, 8, 3)).astype(np.uint8)


def made(*x):
    return dataset.make_dataset("a", *((part, Y[: len(part)]) for part in x))


def test_the_same_pixels_are_the_same_inputs_in_any_type():
    expected = made(PIXELS)
    assert expected.notes == ()
    for kind in (np.float16, np.float32, np.float64):
        data = made(PIXELS.astype(kind))
        assert data.x.dtype == np.uint8
        np.testing.assert_array_equal(data.x, expected.x)
        assert "read as uint8 pixels" in data.notes[0]
    for parts in (
        (PIXELS.astype(float), PIXELS[:4]),
        (PIXELS, PIXELS[:4].astype(np.float32)),
        (PIXELS.astype(float), PIXELS[:4] * 0.0),  # a dark part
        (PIXELS[..., 0].astype(float), PIXELS[:4, ..., 0]),
    ):
        assert made(*parts).x.dtype == np.uint8


def test_floats_that_are_no_pixels_stay_and_doubtful_ones_are_refused():
    x = PIXELS.astype(np.float32)
    flat = x.reshape(len(x), -1)  # features, whatever their values

    def stays(values):
        data = made(values)
        assert data.x.dtype == np.float32 and data.notes == ()
        np.testing.assert_array_equal(data.x.ravel(), values.ravel())

    check_every([x / 255, x / 127.5 - 1, flat, x - 128, x * 10.5, x // 128], stays)

    def check(*parts):
        with refused("a: x_", "which look like pixels", "Save all parts as uint8"):
            made(*parts)

    wide = x * 256  # 16 bits
    check_every([(x / 2,), (wide,), (x, x[:3] / 255), (x / 127.5 - 1, x[:3])], check)


def test_what_networks_see_is_described_per_channel():
    seen = np.asarray(batches.normalise_inputs(PIXELS))
    text = scale.describe(PIXELS)
    for i in range(3):
        c = seen[..., i]
        words = f"{c.min():.3g} to {c.max():.3g}, mean {c.mean():.3g}, deviation"
        assert f"channel {i}: {words} {c.std():.3g}" in text
    assert text.startswith("pixels scaled to [-1, 1]: ")
    grey = np.full((9, 2, 2, 1), 255, np.uint8)
    assert scale.describe(grey).endswith(": 1 to 1, mean 1, deviation 0")
    table = np.array([[0, 10, 5, 5, 100], [2, 10, 5, 5, 300]], np.float32)
    said = "values as they are: 0 to 300, mean 44.2, deviation 89.9; deviation of a "
    assert scale.describe(table) == said + "feature 0 to 100"
    many = np.zeros((5001, 2), np.float32)
    assert scale.describe(many).endswith("(of 1,667 examples)")
