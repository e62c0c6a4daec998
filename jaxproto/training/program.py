"""Rows of the table of programs, and the functions that are compiled."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.mesh import REPLICATED, SHARDED, DeviceLayout, OneDevice
from jaxproto.training.debug_nans import unchecked
from jaxproto.training.kinds import FLOATS, UNMAPPED, Kind
from jaxproto.types import Tree

EACH = True  # cohort has a program


def always(exp: Experiment, *cohort: CohortPlan) -> bool:
    """Returns True: every run needs the program."""
    return True


class Row(NamedTuple):
    """Row of the table of programs."""

    f: Callable  # experiment, cohort if each has a program, floats, arguments
    args: tuple[Kind, ...]  # after the floats
    out: tuple[Kind, ...]  # of one kind: the result itself, not a tuple
    each: bool = False  # one program, or one per cohort
    when: Callable[..., bool] = always  # experiment, cohort -> if a run needs it
    donated: Kind | None = None  # argument whose memory the results reuse


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """Function of floats and arguments, with what its compilation needs."""

    f: Callable
    args: tuple[Kind, ...]  # after the floats
    out: tuple[Kind, ...]  # of one kind: the result itself, not a tuple
    donated: Kind | None = None  # argument whose memory the results reuse
    shardings: Any = None  # options of `jax.jit` on several devices

    def __call__(self, *args):
        """Computes the results from floats and arguments."""
        return self.f(*args)

    @property
    def options(self) -> dict:
        """Returns the options of `jax.jit`."""
        reused = [i for i, kind in enumerate(self.args, 1) if kind == self.donated]
        return {"donate_argnums": reused} | (self.shardings or {})

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Returns the axes of federations of floats and arguments."""
        return tuple(kind.axis for kind in (FLOATS, *self.args))

    def over_federations(self, layout: OneDevice) -> "Program":
        """Returns the program of many federations along a leading axis.

        Args:
          layout: Devices that divide the federations among them.
        """
        many = dataclasses.replace(self, f=jax.vmap(self.f, self.axes))
        if not isinstance(layout, DeviceLayout):
            return many
        specs = (REPLICATED if axis is UNMAPPED else SHARDED for axis in self.axes)
        return many._sharded(layout, tuple(specs), SHARDED)

    def on_devices(self, layout: DeviceLayout) -> "Program":
        """Returns the program that every device runs over its rows."""
        specs = tuple(kind.spec for kind in (FLOATS, *self.args))
        out = tuple(kind.spec for kind in self.out)
        return self._sharded(layout, specs, out if len(out) > 1 else out[0])

    def _sharded(self, layout: DeviceLayout, in_specs: tuple, out_specs) -> "Program":
        f = jax.shard_map(
            self.f,
            mesh=layout.mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            check_vma=False,
        )
        put, get = jax.tree.map(layout.sharding, (in_specs, out_specs))
        shardings = {"in_shardings": put, "out_shardings": get}
        return dataclasses.replace(self, f=f, shardings=shardings)


@unchecked
def stack_trees(trees: Sequence[Tree]) -> Tree:
    """Stacks the leaves of trees of equal structure along a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
