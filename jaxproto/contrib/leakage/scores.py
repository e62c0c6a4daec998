"""How well an attack does: the ROC curve's area, and images beside images."""

import importlib.util

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from jaxproto.errors import UserError

LEVEL = 1.959964  # of the normal distribution, for intervals of 95%
GRID = np.linspace(0.0, 1.0, 20001)
HINT = "images are judged with dm-pix: pip install 'jaxproto[leakage]'"
WINDOW = 7  # pixels of SSIM's Gaussian window, or as many as the image has


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """The chance that a member scores higher than another; a tie is half."""
    higher = members[:, None] > others
    return float(np.mean(higher + 0.5 * (members[:, None] == others)))


def auc_interval(found: float, members: int, others: int) -> tuple[float, float]:
    """The area's 95% interval by scores (Newcombe, Statistics in Medicine 2006).

    All areas whose variance by Hanley and McNeil (Radiology 1982) with the exponents of
    both samples averaged does not rule `found` out; it has a width where `found` is 1.
    """
    a, mean = GRID, (members + others) / 2 - 1
    spread = 1 + mean * (1 - a) / (2 - a) + mean * a / (1 + a)
    variance = a * (1 - a) * spread / (members * others)
    inside = a[np.abs(found - a) <= LEVEL * np.sqrt(variance)]
    return float(inside.min(initial=found)), float(inside.max(initial=found))


def check_installed():
    """Raises UserError unless images can be judged."""
    if importlib.util.find_spec("dm_pix") is None:
        raise UserError(HINT)


def to_unit_range(x: np.ndarray) -> np.ndarray:
    """Images from -1 to 1 as numbers from 0 to 1."""
    return np.clip((np.asarray(x) + 1) / 2, 0, 1)


def psnr(found: np.ndarray, true: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB, mean over images [M, H, W, channels]."""
    import dm_pix

    return float(jnp.mean(dm_pix.psnr(to_unit_range(found), to_unit_range(true))))


def ssim(found: np.ndarray, true: np.ndarray) -> float:
    """Structural similarity, mean over images [M, H, W, channels]."""
    import dm_pix

    size = min(WINDOW, *found.shape[1:3])
    size -= 1 - size % 2
    pair = jnp.asarray(to_unit_range(found)), jnp.asarray(to_unit_range(true))
    return float(jnp.mean(dm_pix.ssim(*pair, filter_size=size)))


def correlation(found: np.ndarray, true: np.ndarray) -> float:
    """Over pixels, mean over images."""
    pairs = zip(found.reshape(len(found), -1), true.reshape(len(true), -1), strict=True)
    return float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))


def match_images(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """`found` in the order of `true` that makes the squared error smallest."""
    flat = found.reshape(len(found), 1, -1) - true.reshape(1, len(true), -1)
    at, of = linear_sum_assignment(np.sum(flat**2, -1))
    return found[at[np.argsort(of)]]
