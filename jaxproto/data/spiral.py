"""The spiral of the ProtoNorm paper: six classes of 5000 points in the plane.

ProtoNorm, appendix A (docs/decisions.md#spiral). The data set comes from FedNH: Dai et
al., "Tackling Data Heterogeneity in Federated Learning with Class Prototypes", AAAI
2023, https://arxiv.org/abs/2212.02758, code Yutong-Dai/FedNH.

Deviations:
  paper: angle k pi/3 + t k pi/3 + N(0, 1): class 0 does not turn, and noise of one
    radian hides classes that lie 60 degrees apart. Here: `literal_angles`.
  code (FedNH): angle from k pi/3 to (k + 1) pi/3 plus Uniform[0, 0.5), seeded by
    torch. Here: `fednh_angles`, the default, seeded by numpy.
"""

from collections.abc import Callable

import numpy as np

CLASSES = 6
POINTS = 5_000  # per class
CLASS_C1 = np.arange(CLASSES)[:, None]
TURN_N = np.linspace(0, 1, POINTS)


def fednh_angles(rng: np.random.Generator) -> np.ndarray:
    """Returns [C, N] angles in radians: each class sweeps its own 60 degrees."""
    noise_CN = rng.uniform(0, 0.5, (CLASSES, POINTS))
    return (CLASS_C1 + TURN_N) * np.pi / 3 + noise_CN


def literal_angles(rng: np.random.Generator) -> np.ndarray:
    """Returns [C, N] angles in radians, exactly as in appendix A of the paper."""
    noise_CN = rng.standard_normal((CLASSES, POINTS))
    return (CLASS_C1 + TURN_N * CLASS_C1) * np.pi / 3 + noise_CN


def points(
    angles: Callable[[np.random.Generator], np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns x [N, 2] = (r sin omega, r cos omega) and y [N], class by class."""
    angle_CN = angles(np.random.default_rng(seed))
    radius_N = np.linspace(1, 10, POINTS)
    x_CN2 = np.stack([radius_N * np.sin(angle_CN), radius_N * np.cos(angle_CN)], axis=2)
    y = np.repeat(np.arange(CLASSES), POINTS)
    return x_CN2.reshape(-1, 2).astype(np.float32), y
