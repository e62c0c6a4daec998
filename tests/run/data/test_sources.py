"""Data sets that come with the package: what they contain."""

import numpy as np
from support.every import every

from jaxproto.data import registry, spiral


@every(["spiral", "spiral_literal"])
def test_a_spiral_has_six_classes_of_5000_points_on_radii_1_to_10_by_its_seed(name):
    data = registry.load(name, seed=3)
    assert data.x.shape == (30_000, 2) and data.x.dtype == np.float32
    assert np.bincount(data.y).tolist() == [5_000] * 6 and data.train_size == 30_000
    radius = np.linalg.norm(data.x, axis=1).reshape(6, 5_000)
    np.testing.assert_allclose(radius, np.tile(np.linspace(1, 10, 5_000), (6, 1)), 1e-5)
    again, other = (registry.load(name, seed=s).x for s in (3, 2))
    assert (data.x == again).all() and (data.x != other).any()


def test_fednh_spiral_classes_sweep_60_degrees_plus_at_most_half_a_radian():
    """docs/decisions.md#spiral: from k pi/3 to (k + 1) pi/3 plus Uniform[0, 0.5)."""
    x_CN2 = registry.load("spiral").x.reshape(6, 5_000, 2).astype(np.float64)
    angle_CN = np.arctan2(x_CN2[..., 0], x_CN2[..., 1])  # x = r sin, y = r cos
    start_CN = (np.arange(6)[:, None] + np.linspace(0, 1, 5_000)) * np.pi / 3
    noise_CN = (angle_CN - start_CN + 1) % (2 * np.pi) - 1
    assert -1e-6 < noise_CN.min() < 0.01 and 0.49 < noise_CN.max() < 0.5 + 1e-6


def test_literal_spiral_turns_k_times_60_degrees_with_unit_normal_noise():
    """ProtoNorm, appendix A: class 0 does not turn at all."""
    angle_CN = spiral.literal_angles(np.random.default_rng(0))
    class_C1 = np.arange(6)[:, None]
    turn_CN = class_C1 * (1 + np.linspace(0, 1, 5_000)) * np.pi / 3
    noise_CN = angle_CN - turn_CN
    assert abs(noise_CN.mean()) < 0.02 and abs(noise_CN.std() - 1) < 0.02
