"""Programs of many federations at once, with a leading axis of them.

Examples and index tables are shared; all else federations have their own.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from jaxproto.experiment.build import Experiment
from jaxproto.training.programs import Programs
from jaxproto.types import Tree

OWN, ALL = 0, None  # an argument with the axis of federations, and one that all share
AXES = {  # of the arguments of each program, floats first
    "start_clients": (OWN, OWN, ALL, ALL),
    "start_server": (OWN, OWN),
    "broadcast": (OWN, OWN),
    "participate": (OWN, OWN, OWN),
    "gather": (OWN, OWN, OWN, ALL),
    "pre_upload": (OWN, OWN, OWN, ALL, ALL),
    "pre_aggregate": (OWN, OWN, OWN, OWN),
    "train": (OWN, OWN, OWN, ALL, ALL),
    "scatter": (OWN, OWN, OWN, OWN),
    "update": (OWN, OWN, OWN, OWN),
    "tested": (OWN, OWN),
    "evaluate": (OWN, OWN, OWN, ALL, ALL),
    "diagnostics": (OWN, OWN),
}
OF_ROWS = ("pre_upload", "train")  # index tables are those of the participants


def mapped(f: Callable, made: Programs) -> Programs:
    """Returns `f(program, axes of its arguments)` of every program that there is."""

    def one(name, program, gathers=None):
        if program is None:
            return None
        axes = AXES[name]
        if name in OF_ROWS and gathers is not None:
            axes = (*axes[:-1], OWN)
        return f(program, axes)

    def field(name, part):
        if isinstance(part, tuple):
            return tuple(map(lambda *each: one(name, *each), part, made.gather))
        return one(name, part)

    return Programs(
        **{name: field(name, part) for name, part in made._asdict().items()}
    )


def of_many(functions: Programs) -> Programs:
    """Returns the programs of many federations."""
    return mapped(lambda f, axes: jax.vmap(f, in_axes=axes), functions)


def in_one_lane(exp: Experiment) -> Experiment:
    """Returns the experiment with one call that trains a cohort."""
    cohorts = tuple(dataclasses.replace(c, lanes=1) for c in exp.cohorts)
    return exp._replace(cohorts=cohorts)


def stacked(trees: Sequence[Tree]) -> Tree:
    """Trees of equal form as one, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
