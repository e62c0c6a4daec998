"""Milliseconds per call of the prototype alignment on the server.

    python -m benchmarks.alignment

The prototypes are random (means of non-negative features) or nearly equal (as untrained
networks upload). The table includes the number of iterations.
"""

import sys

import jax
import jax.numpy as jnp

from benchmarks import measure
from jaxproto.prototypes import kernels

FLAGS = measure.flag_values(
    "repeats",
    classes=(["10", "100", "200", "1000"], "K, number of classes"),
    dims=(["64", "512"], "d, number of features"),
)

STARTS = {  # name -> key, shape -> prototypes
    "random": lambda key, shape: jnp.abs(jax.random.normal(key, shape)),
    "nearly equal": lambda key, shape: 1 + 1e-3 * jax.random.normal(key, shape),
}


def one(start: str, classes: int, dim: int, repeats: int) -> dict:
    """Times one size, and counts the iterations."""
    shape = (classes, dim)
    mean, present = STARTS[start](jax.random.key(0), shape), jnp.ones(classes, bool)
    align = jax.jit(kernels.align).lower(mean, present).compile()
    time = measure.timed(measure.waiting(align, mean, present), repeats)
    steps = int(align(mean, present)[1])
    return {"start": start, "K": classes, "d": dim, "steps": steps, **time.record()}


def milliseconds(r: dict) -> tuple[float, ...]:
    """Returns median, minimum and maximum in ms per call, and us per iteration."""
    per_iteration = 1e6 * r["median"] / r["steps"]
    return (*(1e3 * r[k] for k in ("median", "min", "max")), per_iteration)


def main(argv):
    """Measures every start and size."""
    settings = measure.parse(FLAGS, argv, __doc__)
    rows = [
        one(start, classes, dim, settings["repeats"])
        for start in STARTS
        for classes in measure.whole(settings["classes"])
        for dim in measure.whole(settings["dims"])
    ]
    cells = [
        (*(r[k] for k in ("start", "K", "d", "steps")), *milliseconds(r)) for r in rows
    ]
    columns = ("start", "K", "d", "iterations", "ms", "min", "max", "us / iteration")
    view = measure.table("Prototype alignment, per call", columns, cells)
    measure.finish("alignment", settings, rows, [view])


if __name__ == "__main__":
    main(sys.argv)
