"""Check of metrics before training: by shapes, and a user's on a few examples."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import tracing
from jaxproto.errors import (
    UserError,
    describe_failure,
    first_few,
    place_of,
    shorten,
)
from jaxproto.metrics.metric import Metric, parts, values
from jaxproto.origin import is_external

REAL = 3  # examples that count in the check of sums
FAST: dict[str, str | bool] = {  # options of a program that runs once
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
}


def check_metric(metric: Metric, classes: int):
    """Checks before training that a metric works on scores of `classes` classes."""
    name, shapes = metric.name, []
    times = 2 if is_external(metric) else 1
    for examples in (2, 3):
        inputs = {
            "scores": jax.ShapeDtypeStruct((examples, classes), jnp.float32),
            "y": jax.ShapeDtypeStruct((examples,), jnp.int32),
            "mask": jax.ShapeDtypeStruct((examples,), jnp.float32),
        }
        try:
            shapes.append(tracing.shapes_of(metric.sums, *inputs.values(), times=times))
        except Exception as e:  # a user's function may raise anything
            raise UserError(
                f"metric {name!r} fails on scores of shape ({examples}, {classes}): "
                f"{describe_failure(e)} ({place_of(metric.sums)})."
            ) from e
    if str(shapes[0]) != str(shapes[1]) or not jax.tree.leaves(shapes):
        two, three = (jax.tree.map(lambda a: a.shape, s) for s in shapes)
        raise UserError(
            f"metric {name!r} returns {shorten(two)} of 2 examples and "
            f"{shorten(three)} of 3: return sums over the examples, of shapes that do "
            "not depend on them."
        )
    zero_sums = jax.tree.map(lambda a: np.zeros(a.shape), shapes[0])
    empty = "where all sums are 0, as of a client without test examples"
    _check_value(metric, zero_sums, empty, "; it should be nan there")
    if is_external(metric):
        _check_sums(metric, classes)


def _check_sums(metric: Metric, classes: int):
    """Checks that masked examples do not count, and that sums are sums."""
    rng, size = np.random.default_rng(0), 2 * REAL
    y = np.arange(size, dtype=np.int32) % classes
    scores = rng.normal(size=(size, classes)).astype(np.float32)
    scores[::2] += 9 * np.eye(classes, dtype=np.float32)[y[::2]]  # these are right
    rows = scores, y, (np.arange(size) < REAL).astype(np.float32)

    def compute(*rows):
        spans = (0, size), (0, REAL), (0, 1), (1, REAL)
        return [metric.sums(*(a[i:j] for a in rows)) for i, j in spans]

    name, place = f"metric {metric.name!r}", f"({place_of(metric.sums)})"
    try:
        found = jax.jit(compute).lower(*rows).compile(FAST)(*rows)
    except Exception as e:  # a user's function may raise anything
        raise UserError(f"{name} fails on examples: {describe_failure(e)}.") from e
    masked, real, one, others = jax.tree.map(np.asarray, found)
    added = jax.tree.map(np.add, one, others)
    if not _close(masked, real):
        raise UserError(
            f"{name} counts examples with mask 0, which fill a batch: {REAL} examples "
            f"have {_text(real)}, and {_text(masked)} with {size - REAL} masked ones; "
            f"weight each example by mask, as in jnp.sum(hit_B * mask_B) {place}."
        )
    if not _close(real, added):
        raise UserError(
            f"{name} returns no sums over examples: {REAL} examples have "
            f"{_text(real)}, but 1 and {REAL - 1} of them add up to {_text(added)}; "
            f"return totals, and divide them in a function `value` {place}."
        )
    _check_value(metric, real, f"on {REAL} examples")


def _close(a, b) -> bool:
    """Returns whether two trees of sums are equal up to rounding."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.allclose(x, y, 1e-3, 1e-5, equal_nan=True) for x, y in pairs)


def _text(sums) -> str:
    """Returns sums with few digits, for messages."""
    numbers = np.concatenate([np.ravel(a) for a in jax.tree.leaves(sums)])
    return f"sums {first_few(f'{number:.4g}' for number in numbers)}"


def _check_value(metric: Metric, sums, where: str, hint: str = ""):
    """Checks the value of a metric on some sums."""
    name = metric.name
    try:
        missing = [part for part, v in parts(metric, sums).items() if v is None]
        by_part = values(metric, sums)
    except Exception as e:
        raise UserError(
            f"the value of metric {name!r} fails {where}: {describe_failure(e)}{hint}."
        ) from e
    if missing:
        raise UserError(
            f"the value of metric {name!r} is None {where}; return a number, or nan."
        )
    for part, value in by_part.items():
        if value.ndim > 1:
            raise UserError(
                f"the value {part!r} of metric {name!r} has shape {value.shape}; it "
                "must be a number, or one of every class."
            )
