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

MAPPED, UNMAPPED = (
    0,
    None,
)  # an argument with the axis of federations, and one that all share
AXES = {  # of the arguments of each program, floats first
    "start_clients": (MAPPED, MAPPED, UNMAPPED, UNMAPPED),
    "start_server": (MAPPED, MAPPED),
    "broadcast": (MAPPED, MAPPED),
    "participate": (MAPPED, MAPPED, MAPPED),
    "gather": (MAPPED, MAPPED, MAPPED, UNMAPPED),
    "pre_upload": (MAPPED, MAPPED, MAPPED, UNMAPPED, UNMAPPED),
    "pre_aggregate": (MAPPED, MAPPED, MAPPED, MAPPED),
    "train": (MAPPED, MAPPED, MAPPED, UNMAPPED, UNMAPPED),
    "scatter": (MAPPED, MAPPED, MAPPED, MAPPED),
    "update": (MAPPED, MAPPED, MAPPED, MAPPED),
    "tested": (MAPPED, MAPPED),
    "evaluate": (MAPPED, MAPPED, MAPPED, UNMAPPED, UNMAPPED),
    "diagnostics": (MAPPED, MAPPED),
}
OF_ROWS = ("pre_upload", "train")  # index tables are those of the participants


def map_programs(f: Callable, made: Programs) -> Programs:
    """Returns `f(program, axes of its arguments)` of every program that there is."""

    def one(name, program, gathers=None):
        if program is None:
            return None
        axes = AXES[name]
        if name in OF_ROWS and gathers is not None:
            axes = (*axes[:-1], MAPPED)
        return f(program, axes)

    def field(name, part):
        if isinstance(part, tuple):
            return tuple(map(lambda *each: one(name, *each), part, made.gather))
        return one(name, part)

    return Programs(
        **{name: field(name, part) for name, part in made._asdict().items()}
    )


def vmap_programs(functions: Programs) -> Programs:
    """Returns the programs of many federations."""
    return map_programs(lambda f, axes: jax.vmap(f, in_axes=axes), functions)


def without_lanes(exp: Experiment) -> Experiment:
    """Returns the experiment with one call that trains a cohort."""
    cohorts = tuple(dataclasses.replace(c, num_lanes=1) for c in exp.cohorts)
    return exp._replace(cohorts=cohorts)


def stack_trees(trees: Sequence[Tree]) -> Tree:
    """Trees of equal form as one, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
