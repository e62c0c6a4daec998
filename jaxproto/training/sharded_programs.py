"""The programs of a run on several devices.

Every program runs on all devices under `shard_map`. The rows of clients are dealt to
them (`jaxproto/mesh.py`); server and broadcast are on each, examples where
`placing.py` says. Training, evaluation and the first exchange are those of one device
over the rows that it has, and move nothing; only an evaluation of a sample brings the
clients that it asks to where their examples are. The server's step gathers the uploads,
and every device computes it whole, in the order of one device. Only sums over clients
(`Aggregation.summand`) depend on the number of devices, in their rounding, as they do
on the number of lanes.

Where a part of the clients takes part in a round, `gather` deals the participants to
the devices anew, and `scatter` brings them home.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from jaxproto import gather, mesh
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.federation import Cohort
from jaxproto.mesh import AXIS, ONE, REPLICATED, SHARDED, DeviceLayout, OneDevice
from jaxproto.participation import Participation
from jaxproto.training import batched_programs, data_placement, programs
from jaxproto.training.programs import Programs
from jaxproto.types import Client, Examples, Shard, Tree
from jaxproto.uploads import Report, Uploads


@dataclasses.dataclass(frozen=True, eq=False)
class ShardMapped:
    """A function that runs on every device, over the rows there."""

    layout: DeviceLayout
    f: Callable
    given: tuple[PartitionSpec, ...]  # of each argument, floats first
    made: Any = SHARDED  # of each result

    def __call__(self, *args):
        """Results of all devices."""
        run = jax.shard_map(
            self.f,
            mesh=self.layout.mesh,
            in_specs=self.given,
            out_specs=self.made,
            check_vma=False,
        )
        return run(*args)

    def shardings(self) -> dict:
        """Options of `jax.jit`."""
        where = self.layout.sharding
        given, made = jax.tree.map(where, (self.given, self.made))
        return {"in_shardings": given, "out_shardings": made}


def functions(exp: Experiment) -> Programs:
    """Returns the programs of a run on its devices, before they are compiled.

    Arguments are those of `Programs`; clients and their tables are dealt.
    """
    one, layout = programs.build_programs(exp), exp.layout
    if layout is ONE:
        return one
    R: Any = REPLICATED
    C: Any = SHARDED
    shown = None if exp.dataset.public is None else R
    own = Examples(x=C, y=C, public=shown, shape=exp.dataset.x.shape[1:])
    E = own if data_placement.examples_are_sharded(exp) else R
    moves = [f is not None for f in one.gather]

    def rows(*specs, f):
        return ShardMapped(layout, f, (R, *specs))

    def server(f, *specs):
        return ShardMapped(layout, f, (R, *specs), R)

    def gathered(f):
        return server(partial(_after_gathering, exp.cohorts, f), R, R, C)

    def moving(f, specs, made=C):
        each = zip(exp.cohorts, moves, strict=True)
        return tuple(
            ShardMapped(layout, partial(f, c), (R, *specs), made) if here else None
            for c, here in each
        )

    return Programs(
        start_clients=tuple(rows(R, C, C, f=f) for f in one.start_clients),
        start_server=server(one.start_server, R),
        broadcast=server(one.broadcast, R),
        participate=server(one.participate, R, R),
        gather=moving(_gather, (R, C, C), [gather.ParticipantRows(R, C, C)]),
        pre_upload=tuple(rows(R, C, E, C, f=f) for f in one.pre_upload),
        pre_aggregate=one.pre_aggregate and gathered(one.pre_aggregate),
        train=tuple(rows(R, C, E, C, f=partial(_train, f)) for f in one.train),
        scatter=moving(_scatter, (C, R, C)),
        update=gathered(one.update),
        tested=tuple(
            f and rows(C, f=partial(_tested, c))
            for c, f in zip(exp.cohorts, one.tested, strict=True)
        ),
        evaluate=tuple(rows(R, C, E, C, f=f) for f in one.evaluate),
        diagnostics=server(one.diagnostics, R),
    )


def shard_federations(many: Programs, layout: OneDevice) -> Programs:
    """Returns programs of many federations, of which each device has its part.

    Args:
      many: from `batched_programs.vmap_programs`.
    """
    if layout is ONE:
        return many
    where = {batched_programs.MAPPED: SHARDED, batched_programs.UNMAPPED: REPLICATED}

    def spread(f, axes):
        return ShardMapped(layout, f, tuple(where[axis] for axis in axes))

    return batched_programs.map_programs(spread, many)


def _train(f: Callable, *args) -> tuple[Client, Uploads, Report]:
    """Trains; the sum over the clients of a device gets an axis of devices."""
    clients, uploads, report = f(*args)
    total = jax.tree.map(lambda a: a[None], uploads.total)
    return clients, uploads._replace(total=total), report


def _after_gathering(
    cohorts: Sequence[Cohort], f: Callable, floats, context, server: Tree, ups
) -> Tree:
    """Makes a step of the server with the uploads of all devices."""
    one = map(_canonical, cohorts, ups)
    return f(floats, context, server, tuple(one))


def _canonical(cohort: Cohort, uploads: Uploads) -> Uploads:
    """Returns the uploads of all devices as one device has them."""
    id_R, up = jax.tree.map(
        lambda a: a[: cohort.num_rows], mesh.all_gather_rows((uploads.id, uploads.up))
    )
    parts = jax.tree.map(lambda a: lax.all_gather(a[0], AXIS), uploads.total)
    return Uploads(id_R, up, jax.tree.map(lambda a: sum(a[1:], start=a[0]), parts))


def _tested(cohort: CohortPlan, floats, clients: Client) -> list[Client]:
    """Brings the clients that an evaluation asks to where their examples are."""
    del floats
    number = lax.axis_size(AXIS)
    asked = cohort.evaluated
    at = np.full(mesh.rows_per_device(len(asked), number) * number, -1)
    at[: len(asked)] = asked
    return [mesh.redistribute(clients, jnp.asarray(at))]


def _gather(
    cohort: Cohort, floats, participants: Participation, clients: Client, shards: Shard
) -> list[gather.ParticipantRows]:
    """Brings the participants of a cohort to where they train."""
    del floats
    number, id_K = lax.axis_size(AXIS), mesh.all_gather_rows(clients.id)
    id_K = id_K[: len(cohort.ids)]
    ((place, id_R),) = gather.participant_places(participants, id_K, cohort.num_rows)
    spare = (0, -cohort.num_rows % number)
    assert place is not None  # as the cohort has more clients than take part
    place = jnp.pad(place, spare, constant_values=len(cohort.ids))
    id_R = jnp.pad(id_R, spare, constant_values=len(participants.trains))
    moved, shards = mesh.redistribute((clients, shards), place)
    mine = id_R.reshape(-1, number)[:, lax.axis_index(AXIS)]
    return [gather.ParticipantRows(place, moved.replace(id=mine), shards)]


def _scatter(cohort: Cohort, floats, clients: Client, places, trained) -> Client:
    """Returns all clients of a cohort with its participants as they are now."""
    del cohort, floats
    return mesh.scatter_back(clients, places[0], trained[0])
