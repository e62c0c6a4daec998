"""Delta of the event that a draw of float32 makes impossible for one data set.

    python -m results.privacy.edge [DRAWS]

Neighbours differ by two clips in one number. The event is a noisy number beyond the
largest one that a single draw can give on the first data set. Writes edge.csv: how
often it happens on both, and what delta is at least, at the claimed epsilon and 99 %.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from jaxproto.core.jax_settings import make_key
from jaxproto.features.privacy import accounting
from jaxproto.wrappers.privacy import mechanism

HERE = Path(__file__).parent
EDGE = 5.2202  # just above the largest single draw
MISS = 0.005  # probability that the bound on one of two probabilities fails
NOISES = (0.5, 1.0, 2.0, 4.0, 8.0)
DRAWS, AT_ONCE, DELTA = 100_000_000, 1_000_000, 1e-5
# kind -> draw, ratio of its largest value to that of a single draw
KINDS: dict[str, tuple[Callable, float]] = {
    "one draw": (jax.random.normal, 1.0),
    "half the sum of four": (mechanism.gaussian_noise, 2.0),
}


def counts(draw: Callable, draws: int) -> np.ndarray:
    """Returns how often noise passes the edge, and the edge less two clips."""
    at = jnp.array([EDGE, *(EDGE - 2 / noise for noise in NOISES)])

    @jax.jit
    def passed(key):
        noise = draw(key, (AT_ONCE,), jnp.float32)
        return jnp.stack([jnp.sum(noise > a) for a in at])

    keys = jax.random.split(make_key(0), draws // AT_ONCE)
    return np.sum([np.asarray(passed(key), np.int64) for key in keys], 0)


def delta_at_least(
    first: int, second: int, draws: int, epsilon: float, possible: bool
) -> float:
    """Returns a lower bound on delta, by Clopper and Pearson's intervals.

    Args:
      possible: Whether the event can happen on the first data set.
    """
    likely = stats.beta.ppf(MISS, second, draws - second + 1) if second else 0.0
    rare = stats.beta.ppf(1 - MISS, first + 1, draws - first) if possible else 0.0
    return max(likely - np.exp(epsilon) * rare, 0.0)


def main(draws: int):
    """Draws noise of both kinds and counts."""
    with (HERE / "edge.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        head = "draw", "noise", "epsilon", "delta", "draws", "first", "second"
        table.writerow((*head, "delta at least"))
        for kind, (draw, factor) in KINDS.items():
            first, *others = counts(draw, draws).tolist()
            for noise, second in zip(NOISES, others, strict=True):
                epsilon = accounting.epsilon_composed(noise, 1, DELTA)
                least = delta_at_least(first, second, draws, epsilon, factor > 1)
                row = kind, noise, epsilon, DELTA, draws, first, second, least
                table.writerow(row)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
