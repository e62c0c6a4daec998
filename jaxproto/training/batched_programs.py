"""Programs that compute many federations along a leading axis.

Federations share examples and index tables, and nothing else.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from jaxproto.experiment.build import Experiment
from jaxproto.training.programs import Programs
from jaxproto.types import Tree

MAPPED, UNMAPPED = 0, None  # axes of arguments per federation, and of shared ones
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


def map_programs(f: Callable, programs: Programs) -> Programs:
    """Returns `f(program, axes of its arguments)` for every program.

    With `jax.vmap` as `f`, the programs compute many federations.
    """

    def field(name, part):
        return jax.tree.map(lambda program: f(program, AXES[name]), part)

    def on_rows(name):
        *others, tables = AXES[name]
        # the index tables that a program gathers differ between federations
        axes = [(*others, MAPPED if gather else tables) for gather in programs.gather]
        return tuple(map(f, getattr(programs, name), axes))

    mapped = Programs(*map(field, Programs._fields, programs))
    return mapped._replace(pre_upload=on_rows("pre_upload"), train=on_rows("train"))


def without_lanes(exp: Experiment) -> Experiment:
    """Returns the experiment with one lane per cohort."""
    cohorts = tuple(dataclasses.replace(c, num_lanes=1) for c in exp.cohorts)
    return exp._replace(cohorts=cohorts)


def stack_trees(trees: Sequence[Tree]) -> Tree:
    """Stacks the leaves of trees of equal structure along a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
