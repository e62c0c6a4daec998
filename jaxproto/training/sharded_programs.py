"""Programs of a run on several devices.

Every program runs on all devices under `shard_map`. The rows of clients are distributed
(`jaxproto/devices/mesh.py`); server and broadcast are replicated, examples placed by
`data_placement.py`. Training, evaluation and the first exchange run the programs of one
device over its rows, without communication; only an evaluation of a sample moves
clients. The server's step gathers the uploads, and every device computes it completely,
in the order of one device. Only sums over clients (`Aggregation.summand`) depend on the
number of devices, by rounding, as they do on the number of calls.

If a round has only some of the clients, `gather` distributes its participants evenly,
and `scatter` moves them back.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.core.types import Client
from jaxproto.devices import mesh
from jaxproto.devices.mesh import AXIS, DeviceLayout
from jaxproto.experiment.build import Experiment
from jaxproto.round import gather
from jaxproto.round.federation import Cohort
from jaxproto.round.gather import ParticipantRows
from jaxproto.round.uploads import Report, Uploads
from jaxproto.training import programs
from jaxproto.training.programs import Programs


def build_programs(exp: Experiment) -> Programs:
    """Returns the programs of a run on its devices, before they are compiled."""
    if not isinstance(exp.layout, DeviceLayout):
        return programs.build_programs(exp)
    single = programs.build_programs(exp, ON_DEVICES)
    return jax.tree.map(lambda program: program.on_devices(exp.layout), single)


def _train(exp, cohort, *args) -> tuple[Client, Uploads, Report]:
    """Trains; adds an axis of devices to the sum over the clients of a device."""
    clients, uploads, report = ON_ONE.train.f(exp, cohort, *args)
    total = jax.tree.map(lambda a: a[None], uploads.total)
    return clients, uploads._replace(total=total), report


def _after_gathering(step: Callable) -> Callable:
    """Returns a step of the server that takes the uploads of all devices."""

    def program(exp, floats, context, server, ups):
        uploads = tuple(map(_gather_uploads, exp.cohorts, ups))
        return step(exp, floats, context, server, uploads)

    return program


def _gather_uploads(cohort: Cohort, uploads: Uploads) -> Uploads:
    """Returns the uploads of all devices in the layout of one device."""
    id_R, up = jax.tree.map(
        lambda a: a[: cohort.num_rows], mesh.all_gather_rows((uploads.id, uploads.up))
    )
    totals = jax.tree.map(lambda a: lax.all_gather(a[0], AXIS), uploads.total)
    return Uploads(id_R, up, jax.tree.map(lambda a: sum(a[1:], start=a[0]), totals))


def _tested(exp, cohort, floats, clients) -> list[Client]:
    """Moves the evaluated clients to the devices that have their test examples."""
    evaluated, devices = cohort.evaluated, lax.axis_size(AXIS)
    padding = (0, -len(evaluated) % devices)
    row_R = np.pad(evaluated, padding, constant_values=-1)
    return [mesh.redistribute(clients, jnp.asarray(row_R))]


def _gather(exp, cohort, floats, who, clients, shards) -> list[ParticipantRows]:
    """Distributes the participants of a cohort over the devices."""
    devices = lax.axis_size(AXIS)
    id_K = mesh.all_gather_rows(clients.id)[: len(cohort.ids)]
    ((place, id_R),) = gather.participant_places(who, id_K, cohort.num_rows)
    padding = (0, -cohort.num_rows % devices)
    assert place is not None  # as the cohort has more clients than participants
    place = jnp.pad(place, padding, constant_values=len(cohort.ids))
    id_R = jnp.pad(id_R, padding, constant_values=len(who.trains))
    moved, shards = mesh.redistribute((clients, shards), place)
    local_ids = id_R.reshape(-1, devices)[:, lax.axis_index(AXIS)]
    return [ParticipantRows(place, moved.replace(id=local_ids), shards)]


def _scatter(exp, cohort, floats, clients, places, trained) -> Client:
    """Returns all clients of a cohort with the trained participants."""
    return mesh.scatter_back(clients, places[0], trained[0])


ON_ONE = Programs()
ON_DEVICES = Programs(
    gather=ON_ONE.gather._replace(f=_gather),
    pre_aggregate=ON_ONE.pre_aggregate._replace(
        f=_after_gathering(ON_ONE.pre_aggregate.f)
    ),
    train=ON_ONE.train._replace(f=_train),
    scatter=ON_ONE.scatter._replace(f=_scatter),
    update=ON_ONE.update._replace(f=_after_gathering(ON_ONE.update.f)),
    tested=ON_ONE.tested._replace(f=_tested),
)
