"""Check of metrics by shapes alone, before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import tracing
from jaxproto.errors import UserError, describe_failure, is_external, place_of, shorten
from jaxproto.metrics.metric import Metric, values


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
    _check_value(metric, jax.tree.map(lambda a: np.zeros(a.shape), shapes[0]))


def _check_value(metric: Metric, zero_sums):
    """Checks the value of a metric on sums of 0, as of a client without examples."""
    name = metric.name
    try:
        by_part = values(metric, zero_sums)
    except Exception as e:
        raise UserError(
            f"the value of metric {name!r} fails where all sums are 0, as of a client "
            f"without test examples: {describe_failure(e)}; it should be nan there."
        ) from e
    for part, value in by_part.items():
        if value.ndim > 1:
            raise UserError(
                f"the value {part!r} of metric {name!r} has shape {value.shape}; it "
                "must be a number, or one of every class."
            )
