"""Programs of a run on several devices.

Every program runs on all devices under `shard_map`. The rows of clients are distributed
(`jaxproto/mesh.py`); server and broadcast are replicated, examples placed by
`data_placement.py`. Training, evaluation and the first exchange run the programs of one
device over its rows, without communication; only an evaluation of a sample moves
clients. The server's step gathers the uploads, and every device computes it completely,
in the order of one device. Only sums over clients (`Aggregation.summand`) depend on the
number of devices, by rounding, as they do on the number of lanes.

If a round has only some of the clients, `gather` distributes its participants evenly,
and `scatter` moves them back.
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
    """Function that runs on every device, over the rows of the device."""

    layout: DeviceLayout
    f: Callable
    in_specs: tuple[PartitionSpec, ...]  # of each argument, floats first
    out_specs: Any = SHARDED  # of each result

    def __call__(self, *args):
        """Returns the results of all devices."""
        run = jax.shard_map(
            self.f,
            mesh=self.layout.mesh,
            in_specs=self.in_specs,
            out_specs=self.out_specs,
            check_vma=False,
        )
        return run(*args)

    def shardings(self) -> dict:
        """Returns the shardings of arguments and results, as options of `jax.jit`."""
        specs = self.in_specs, self.out_specs
        inputs, outputs = jax.tree.map(self.layout.sharding, specs)
        return {"in_shardings": inputs, "out_shardings": outputs}


def functions(exp: Experiment) -> Programs:
    """Returns the programs of a run on its devices, before they are compiled.

    Arguments are those of `Programs`; clients and their tables are distributed.
    """
    single, layout = programs.build_programs(exp), exp.layout
    if layout is ONE:
        return single
    R: Any = REPLICATED
    C: Any = SHARDED  # rows of clients
    public = jax.tree.map(lambda rows: R, exp.dataset.public)
    sharded = Examples(x=C, y=C, public=public, shape=exp.dataset.x.shape[1:])
    E = sharded if data_placement.examples_are_sharded(exp) else R  # examples

    def mapped(f, *specs, out=C):
        return ShardMapped(layout, f, (R, *specs), out)

    def gathered(f):
        return mapped(partial(_after_gathering, exp.cohorts, f), R, R, C, out=R)

    def moving(f, of_one_device, *specs, out=C):
        def of_cohort(cohort, program):
            return program and mapped(partial(f, cohort), *specs, out=out)

        return tuple(map(of_cohort, exp.cohorts, of_one_device))

    participants: Any = gather.ParticipantRows(R, C, C)
    return Programs(
        start_clients=tuple(mapped(f, R, C, C) for f in single.start_clients),
        start_server=mapped(single.start_server, R, out=R),
        broadcast=mapped(single.broadcast, R, out=R),
        participate=mapped(single.participate, R, R, out=R),
        gather=moving(_gather, single.gather, R, C, C, out=[participants]),
        pre_upload=tuple(mapped(f, R, C, E, C) for f in single.pre_upload),
        pre_aggregate=single.pre_aggregate and gathered(single.pre_aggregate),
        train=tuple(mapped(partial(_train, f), R, C, E, C) for f in single.train),
        scatter=moving(_scatter, single.scatter, C, R, C),
        update=gathered(single.update),
        tested=moving(_tested, single.tested, C),
        evaluate=tuple(mapped(f, R, C, E, C) for f in single.evaluate),
        diagnostics=mapped(single.diagnostics, R, out=R),
    )


def shard_federations(many: Programs, layout: OneDevice) -> Programs:
    """Returns programs of many federations that divide them among devices."""
    if layout is ONE:
        return many
    specs = {batched_programs.MAPPED: SHARDED, batched_programs.UNMAPPED: REPLICATED}

    def shard(f, axes):
        return ShardMapped(layout, f, tuple(specs[axis] for axis in axes))

    return batched_programs.map_programs(shard, many)


def _train(f: Callable, *args) -> tuple[Client, Uploads, Report]:
    """Trains; adds an axis of devices to the sum over the clients of a device."""
    clients, uploads, report = f(*args)
    total = jax.tree.map(lambda a: a[None], uploads.total)
    return clients, uploads._replace(total=total), report


def _after_gathering(
    cohorts: Sequence[Cohort], f: Callable, floats, context, server: Tree, ups
) -> Tree:
    """Computes a step of the server with the uploads of all devices."""
    uploads = tuple(map(_gather_uploads, cohorts, ups))
    return f(floats, context, server, uploads)


def _gather_uploads(cohort: Cohort, uploads: Uploads) -> Uploads:
    """Returns the uploads of all devices in the layout of one device."""
    id_R, up = jax.tree.map(
        lambda a: a[: cohort.num_rows], mesh.all_gather_rows((uploads.id, uploads.up))
    )
    parts = jax.tree.map(lambda a: lax.all_gather(a[0], AXIS), uploads.total)
    return Uploads(id_R, up, jax.tree.map(lambda a: sum(a[1:], start=a[0]), parts))


def _tested(cohort: CohortPlan, floats, clients: Client) -> list[Client]:
    """Moves the evaluated clients to the devices that have their test examples."""
    evaluated, devices = cohort.evaluated, lax.axis_size(AXIS)
    padding = (0, -len(evaluated) % devices)
    row_R = np.pad(evaluated, padding, constant_values=-1)
    return [mesh.redistribute(clients, jnp.asarray(row_R))]


def _gather(
    cohort: Cohort, floats, participants: Participation, clients: Client, shards: Shard
) -> list[gather.ParticipantRows]:
    """Distributes the participants of a cohort over the devices."""
    devices = lax.axis_size(AXIS)
    id_K = mesh.all_gather_rows(clients.id)[: len(cohort.ids)]
    ((place, id_R),) = gather.participant_places(participants, id_K, cohort.num_rows)
    padding = (0, -cohort.num_rows % devices)
    assert place is not None  # as the cohort has more clients than participants
    place = jnp.pad(place, padding, constant_values=len(cohort.ids))
    id_R = jnp.pad(id_R, padding, constant_values=len(participants.trains))
    moved, shards = mesh.redistribute((clients, shards), place)
    local_ids = id_R.reshape(-1, devices)[:, lax.axis_index(AXIS)]
    return [gather.ParticipantRows(place, moved.replace(id=local_ids), shards)]


def _scatter(cohort: Cohort, floats, clients: Client, places, trained) -> Client:
    """Returns all clients of a cohort with the trained participants."""
    return mesh.scatter_back(clients, places[0], trained[0])
