"""Arrays of the server programs, built from the replies of clients."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import wire
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Aggregation
from jaxproto.core.types import Tree
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import evaluation_tables
from jaxproto.nodes.flower.accept import Update
from jaxproto.nodes.flower.node import single_client_experiment
from jaxproto.round import federation, gather
from jaxproto.round.evaluation import BY_CLIENT
from jaxproto.round.kept_state import STATEFUL
from jaxproto.round.participation import Participation
from jaxproto.round.uploads import Report, Uploads, upload_and_summand
from jaxproto.training import programs


class UploadShapes(NamedTuple):
    """Shapes of the messages that one client sends."""

    first: Tree  # packed upload before training; () with one exchange
    up: Tree  # packed upload after training
    sums: tuple[Tree, ...]  # evaluation sums, per cohort


def upload_shapes(exp: Experiment, down: Tree) -> UploadShapes:
    """Returns the shapes of the messages that clients of a federation send.

    Args:
      down: Shapes of the packed broadcast.
    """
    clients = [single_client_experiment(exp, cohort.ids[0]) for cohort in exp.cohorts]
    shapes = [_client_shapes(client, down) for client in clients]
    return shapes[0]._replace(sums=tuple(shape.sums for shape in shapes))


def _client_shapes(exp: Experiment, down: Tree) -> UploadShapes:
    compiled = programs.plain_programs(exp)
    cohort = exp.cohorts[0]
    init = partial(federation.init_cohort, exp.method, exp.local, cohort)
    ids, count = programs.client_ids_and_counts(exp, cohort)
    client = jax.eval_shape(init, make_key(0), count, ids)
    ones = jnp.ones(len(exp.counts.train), bool)
    everyone, message = Participation(ones, ones), jax.eval_shape(wire.unpack, down)
    examples = jax.eval_shape(lambda: build.examples(exp.dataset))
    shared = programs.round_context(0, 0), everyone, message
    args = *shared, client, examples, *exp.train
    _, uploads, _ = jax.eval_shape(compiled.train[0], *args)
    early = ()
    if exp.method.two_exchanges:
        early = jax.eval_shape(compiled.pre_upload[0], *args)[0].up
    sums = jax.eval_shape(compiled.evaluate[0], message, client, examples, *exp.test)
    return jax.tree.map(  # without the leading axis
        lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype),
        UploadShapes(early, uploads.up, sums),
    )


def stack_messages(
    ids: Iterable[Sequence[int]], messages: Mapping[int, Tree], like: Tree
) -> list[Tree]:
    """Stacks messages [K, ...] per cohort; absent clients have zeros.

    Args:
      ids: Client ids of each cohort.
      messages: Messages by client id.
      like: Shapes of one message.
    """
    absent = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), like)
    return [
        jax.tree.map(
            lambda *a: np.stack(a), *(messages.get(i, absent) for i in cohort_ids)
        )
        for cohort_ids in ids
    ]


def split_into_calls(
    exp: Experiment,
    aggregation: Aggregation,
    participation: Participation,
    stacked: Sequence[Tree],
) -> tuple[Uploads, ...]:
    """Gathers the uploads of each call of the client programs of the simulator.

    Sums over clients have the order of the simulator.

    Args:
      participation: Drawn clients, and those whose upload arrived.
      stacked: Packed uploads from `stack_messages`.
    """
    uploads = []
    for cohort, packed in zip(exp.cohorts, stacked, strict=True):
        ids = jnp.asarray(cohort.ids)
        map_rows = cohort.mode.map_and_sum(partial(upload_and_summand, aggregation))
        for place, id_R in gather.participant_places(
            participation, ids, cohort.num_rows, exp.num_calls(cohort)
        ):
            reports_R = gather.participation_flags(participation, id_R).reports
            rows = map_rows(reports_R, gather.take_rows(packed, place))
            uploads.append(Uploads(id_R, *rows))
    return tuple(uploads)


def collect_report(clients: int, updates: Mapping[int, Update]) -> Report:
    """Collects loss, steps and bytes of the accepted replies, by client id."""
    dtypes = {"loss": "f4", "steps": "i4", "scalars": "i8", "bytes": "i8"}
    arrays: Any = {name: np.zeros(clients, dtype) for name, dtype in dtypes.items()}
    for i, update in updates.items():
        for name, array in arrays.items():
            array[i] = getattr(update, name)
    arrays |= {"id": np.arange(clients), "seconds": np.zeros(clients), "changed": {}}
    arrays |= dict.fromkeys(("usable", "finite"), np.ones(clients, bool))
    return Report(**arrays)


def restrict_evaluated(exp: Experiment, ids: Sequence[int]) -> Experiment:
    """Restricts the evaluation of an experiment to the clients `ids`."""
    cohorts = []
    for cohort in exp.cohorts:
        places = tuple(k for k, i in enumerate(cohort.ids) if i in ids)
        if places:
            cohorts.append(
                dataclasses.replace(
                    cohort, kept_state=STATEFUL, scoring=BY_CLIENT, sample=places
                )
            )
    tests = evaluation_tables(cohorts, exp.partition)
    return exp._replace(cohorts=tuple(cohorts), test=tests)
