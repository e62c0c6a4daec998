"""The programs of a run on several devices.

Every program runs on all devices under `shard_map`. The rows of clients are dealt to
them (`jaxproto/devices.py`); server and broadcast are on each, examples where
`placing.py` says. Training, evaluation and the first exchange are those of one device
over the rows that it has, and move nothing; only an evaluation of a sample brings the
clients that it asks to where their examples are. The server's step gathers the uploads,
and every device computes it whole, in the order of one device. Only sums over clients
(`Aggregation.summand`) depend on the number of devices, in their rounding, as they do
on the number of lanes.

Where a part of the clients takes part in a round, `fetch` deals the participants to the
devices anew, and `put_back` brings them home.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from jaxproto import devices, rows
from jaxproto.config.build import Experiment
from jaxproto.config.cohorts import HOSTED
from jaxproto.devices import AXIS, REPLICATED, SHARDED, Layout
from jaxproto.federation import Cohort, Report, Uploads
from jaxproto.participation import Participation
from jaxproto.training import placing, programs
from jaxproto.training.programs import Programs
from jaxproto.types import Array, Client, Examples, Shard, Tree


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """A function that runs on every device, over the rows there."""

    layout: Layout
    f: Callable
    given: tuple[PartitionSpec, ...]  # of each argument, floats first
    made: PartitionSpec | tuple[PartitionSpec, ...] = SHARDED  # of each result

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


def functions(exp: Experiment, layout: Layout) -> Programs:
    """The programs of a run before they are compiled.

    Arguments are those of `Programs`; clients and their tables are dealt.
    """
    whole, here = programs.functions(exp), programs.functions(on_one(exp))
    R, C = REPLICATED, SHARDED
    shown = None if exp.dataset.public is None else R
    own: Any = C, C, shown, exp.dataset.x.shape[1:]
    E = Examples(*own) if placing.apart(exp) else R

    def clients(*given):
        return lambda f: Spread(layout, f, (R, *given))

    def server(f, *given):
        return Spread(layout, f, (R, *given), R)

    def gathered(f):
        return server(partial(_after_gathering, exp.cohorts, f), R, R, C)

    def moving(f, given, made):
        each = (partial(f, c) if moves(exp, c) else None for c in exp.cohorts)
        return tuple(f and Spread(layout, f, (R, *given), made) for f in each)

    asked = (asked_of(exp, cohort) for cohort in exp.cohorts)
    evaluate = map(partial, repeat(_evaluate), asked, here.evaluate)
    return Programs(
        start_clients=tuple(map(clients(R, C, C), here.start_clients)),
        start_server=server(whole.start_server, R),
        broadcast=server(whole.broadcast, R),
        participate=server(whole.participate, R, R),
        fetch=moving(_fetch, (R, C, C), (R, C, C)),
        pre_upload=tuple(map(clients(R, R, C, E, C), here.pre_upload)),
        pre_aggregate=whole.pre_aggregate and gathered(whole.pre_aggregate),
        train=tuple(clients(R, R, R, C, E, C)(partial(_train, f)) for f in here.train),
        put_back=moving(_put_back, (C, R, C), C),
        update=gathered(whole.update),
        evaluate=tuple(map(clients(R, C, E, C), evaluate)),
        diagnostics=server(whole.diagnostics, R),
    )


OWN = {  # arguments of which every federation has its own, floats among them
    "start_clients": 2,
    "start_server": 2,
    "broadcast": 2,
    "participate": 3,
    "pre_upload": 4,
    "pre_aggregate": 4,
    "train": 5,
    "update": 4,
    "evaluate": 3,
    "diagnostics": 2,
}


def of_federations(many: Programs, layout: Layout) -> Programs:
    """Programs of many federations, of which each device has its part.

    Args:
      many: from `programs.of_many`.
    """

    def over(name):
        shared = (REPLICATED,) * programs.SHARED.get(name, 0)
        given = (SHARDED,) * OWN.get(name, 0) + shared
        return lambda f: Spread(layout, f, given)

    made = {
        name: jax.tree.map(over(name), part) if part else part
        for name, part in many._asdict().items()
    }
    return Programs(**made)


def on_one(exp: Experiment) -> Experiment:
    """The same where the rows of one device are all that there is."""
    cohorts = (c._replace(most=0, lanes=1, tested=()) for c in exp.cohorts)
    return exp._replace(cohorts=tuple(cohorts))


def moves(exp: Experiment, cohort: Cohort) -> bool:
    """Whether participants are dealt anew each round."""
    return bool(cohort.most) and exp.store not in HOSTED


def _train(f: Callable, *args) -> tuple[Client, Report]:
    """Training, whose sum over the clients of a device gets an axis of devices."""
    clients, report = f(*args)
    total = jax.tree.map(lambda a: a[None], report.uploads.total)
    uploads = report.uploads._replace(total=total)
    return clients, report._replace(uploads=uploads)


def _after_gathering(
    cohorts: Sequence[Cohort], f: Callable, floats, context, server: Tree, ups
) -> Tree:
    """A step of the server with the uploads of all devices, as one device has them."""
    one = map(_canonical, cohorts, ups)
    return f(floats, context, server, tuple(one))


def _canonical(cohort: Cohort, uploads: Uploads) -> Uploads:
    id_R, up = jax.tree.map(
        lambda a: a[: cohort.room], devices.everyone((uploads.id, uploads.up))
    )
    parts = jax.tree.map(lambda a: lax.all_gather(a[0], AXIS), uploads.total)
    return Uploads(id_R, up, jax.tree.map(lambda a: sum(a[1:], start=a[0]), parts))


def asked_of(exp: Experiment, cohort: Cohort) -> tuple[int, ...]:
    """Rows to bring to where they are evaluated; () where all are, at home."""
    return cohort.tested if cohort.keeps and exp.store not in HOSTED else ()


def _evaluate(asked: Sequence[int], f: Callable, floats, down, clients, *rest):
    """Evaluation of the rows of a device, or of the clients that are asked."""
    if asked:
        number = lax.axis_size(AXIS)
        at = np.full(devices.width(len(asked), number) * number, -1)
        at[: len(asked)] = asked
        clients = devices.fetch(clients, jnp.asarray(at))
    return f(floats, down, clients, *rest)


def _fetch(
    cohort: Cohort, floats, participants: Participation, clients: Client, shards: Shard
) -> tuple[Array, Client, Shard]:
    """Participants of a cohort where they train, and the places that are their home."""
    del floats
    number, count = lax.axis_size(AXIS), len(cohort.ids)
    here = rows.of(participants, devices.everyone(clients.id)[:count], cohort.room)
    assert here.at is not None  # as the cohort has more clients than take part
    spare = (0, -cohort.room % number)
    at_R = jnp.pad(here.at, spare, constant_values=count)
    id_R = jnp.pad(here.id, spare, constant_values=len(participants.trains))
    moved, shards = devices.fetch((clients, shards), at_R)
    mine = id_R.reshape(-1, number)[:, lax.axis_index(AXIS)]
    return at_R, moved.replace(id=mine), shards


def _put_back(cohort: Cohort, floats, clients: Client, at_R: Array, after: Client):
    """The clients of a cohort with its participants as they are now."""
    del cohort, floats
    return devices.put(clients, at_R, after)
