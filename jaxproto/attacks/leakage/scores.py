"""Scores of attacks: ROC curve and similarity of images."""

import importlib.util

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from jaxproto.errors import UserError

LEVEL = 1.959964  # normal quantile of 95% intervals
GRID = np.linspace(0.0, 1.0, 20001)
HINT = "images are judged with dm-pix: pip install 'jaxproto[leakage]'"
SIMILARITY = "psnr", "psnr of public mean", "ssim", "ssim of public mean"
WINDOW = 7  # pixels of the Gaussian window of SSIM, at most the image size


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Returns the probability that a member scores above another; ties count half."""
    higher = members[:, None] > others
    return float(np.mean(higher + 0.5 * (members[:, None] == others)))


def tpr(members: np.ndarray, others: np.ndarray, fpr: float) -> float:
    """Returns the share of members above a threshold that at most `fpr` others pass."""
    threshold = np.sort(others)[::-1][int(fpr * len(others))]
    return float(np.mean(members > threshold))


def auc_interval(area: float, members: int, others: int) -> tuple[float, float]:
    """Returns the 95% score interval of an area (Newcombe, Stat. in Medicine 2006).

    The interval contains the areas whose variance by Hanley and McNeil (Radiology
    1982), with both exponents averaged, does not exclude `area`. An `area` of 1 has an
    interval of nonzero width.
    """
    a, mean = GRID, (members + others) / 2 - 1
    spread = 1 + mean * (1 - a) / (2 - a) + mean * a / (1 + a)
    variance = a * (1 - a) * spread / (members * others)
    inside = a[np.abs(area - a) <= LEVEL * np.sqrt(variance)]
    return float(inside.min(initial=area)), float(inside.max(initial=area))


def check_installed():
    """Raises UserError unless dm-pix is installed."""
    if importlib.util.find_spec("dm_pix") is None:
        raise UserError(HINT)


def to_unit_range(x: np.ndarray) -> np.ndarray:
    """Scales images from [-1, 1] to [0, 1]."""
    return np.clip((np.asarray(x) + 1) / 2, 0, 1)


def psnr(images: np.ndarray, true: np.ndarray) -> float:
    """Returns the mean peak signal-to-noise ratio in dB over images [M, H, W, C]."""
    import dm_pix

    return float(jnp.mean(dm_pix.psnr(to_unit_range(images), to_unit_range(true))))


def ssim(images: np.ndarray, true: np.ndarray) -> float:
    """Returns the mean structural similarity of images [M, H, W, channels]."""
    import dm_pix

    size = min(WINDOW, *images.shape[1:3])
    size -= 1 - size % 2
    pair = jnp.asarray(to_unit_range(images)), jnp.asarray(to_unit_range(true))
    return float(jnp.mean(dm_pix.ssim(*pair, filter_size=size)))


def similarity(
    images: np.ndarray, public: np.ndarray, true: np.ndarray
) -> dict[str, float]:
    """Returns the columns of SIMILARITY: of images, and of public mean images."""
    values = [f(a, true) for f in (psnr, ssim) for a in (images, public)]
    return dict(zip(SIMILARITY, values, strict=True))


def match_images(images: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Reorders images to minimise their squared error to `true`."""
    flat = images.reshape(len(images), 1, -1) - true.reshape(1, len(true), -1)
    rows, columns = linear_sum_assignment(np.sum(flat**2, -1))
    return images[rows[np.argsort(columns)]]
