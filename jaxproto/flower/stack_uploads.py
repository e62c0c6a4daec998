"""What the server makes of clients' answers: the arrays that its programs take."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import federation, gather, wire
from jaxproto import uploads as uploads_
from jaxproto.evaluation import BY_CLIENT
from jaxproto.experiment import build
from jaxproto.experiment import cohorts as cohorts_
from jaxproto.experiment.build import Experiment
from jaxproto.flower.node import Answer, single_client_experiment
from jaxproto.method import Aggregation
from jaxproto.participation import Participation
from jaxproto.persistence import STATEFUL
from jaxproto.training import programs
from jaxproto.types import Tree
from jaxproto.uploads import Report, Uploads


class UploadShapes(NamedTuple):
    """Of what one client sends."""

    first: Tree  # packed, before it trains; () with one exchange
    up: Tree  # packed
    sums: tuple[Tree, ...]  # of an evaluation, per cohort


def shapes(exp: Experiment, down: Tree) -> UploadShapes:
    """Of every client of a federation.

    Args:
      down: shapes of the packed broadcast.
    """
    each = [
        _shapes(single_client_experiment(exp, cohort.ids[0]), down)
        for cohort in exp.cohorts
    ]
    return UploadShapes(each[0].first, each[0].up, tuple(of.sums for of in each))


def _shapes(exp: Experiment, down: Tree) -> UploadShapes:
    made = programs.with_floats(programs.build_programs(exp), exp.floats)
    cohort = exp.cohorts[0]
    start = partial(federation.init_cohort, exp.method, exp.local, cohort)
    ids, count = programs.client_ids_and_counts(exp, cohort)
    client = jax.eval_shape(start, jax.random.key(0), count, ids)
    on = jnp.ones(len(exp.counts.train), bool)
    who, message = Participation(on, on), jax.eval_shape(wire.unpack, down)
    examples = jax.eval_shape(lambda: build.examples(exp.dataset))
    context = programs.round_context(0, 0)
    inputs = programs.RoundInputs(context, who, message)
    own = client, examples, *exp.train
    _, sent, _ = jax.eval_shape(made.train[0], inputs, *own)
    first = ()
    if made.pre_upload:
        first = jax.eval_shape(made.pre_upload[0], inputs, *own)[0].up
    sums = jax.eval_shape(made.evaluate[0], message, client, examples, *exp.test)
    return UploadShapes(*(_of_one(tree) for tree in (first, sent.up, sums)))


def _of_one(tree: Tree) -> Tree:
    """Shapes without the leading axis."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), tree)


def absent_upload(like: Tree) -> Tree:
    """The packed message "not there"."""
    return jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), like)


def stack_uploads(
    exp: Experiment, ups: Mapping[int, Tree], like: Tree
) -> tuple[Tree, ...]:
    """Packed messages of all clients [K, ...] per cohort, whatever came."""
    nobody = absent_upload(like)
    return tuple(
        jax.tree.map(lambda *a: np.stack(a), *(ups.get(i, nobody) for i in c.ids))
        for c in exp.cohorts
    )


def split_into_lanes(
    exp: Experiment,
    aggregation: Aggregation,
    who: Participation,
    stacked: Sequence[Tree],
) -> tuple[Uploads, ...]:
    """Uploads as the simulator's programs hand them to the server's.

    Sums over clients are taken in the same order as there.

    Args:
      aggregation: of the messages.
      who: was drawn, and whose message came.
      stacked: of `stacked`.
    """
    made = []
    for cohort, packed in zip(exp.cohorts, stacked, strict=True):
        ids = jnp.asarray(cohort.ids)
        for place, id_R in gather.participant_places(
            who, ids, cohort.num_rows, cohort.num_lanes
        ):
            reports_R = gather.participation_flags(who, id_R).reports
            collected = cohort.mode.map_and_sum(
                partial(uploads_.upload_and_summand, aggregation)
            )
            up = collected(reports_R, gather.take_rows(packed, place))
            made.append(Uploads(id_R, *up))
    return tuple(made)


def collect_report(
    clients: int, said: Mapping[int, Answer], ups: Mapping[int, Tree]
) -> Report:
    """What clients told besides their uploads, by id.

    Args:
      ups: the uploads that came undamaged.
    """
    zeros = partial(np.zeros, clients)
    loss, steps, finite = zeros(np.float32), zeros(np.int32), np.ones(clients, bool)
    sent, size = zeros(np.int64), zeros(np.int64)
    told: dict[str, np.ndarray] = {"loss": loss, "steps": steps, "finite": finite}
    for i, answer in said.items():
        for name in told.keys() & answer.keys():
            told[name][i] = answer[name]
        if i in ups:
            sent[i], size[i] = answer["sent"], len(answer["up"])
    arrays: Any = {**told, "sent": sent, "bytes": size, "id": np.arange(clients)}
    return Report(**arrays)


def restrict_evaluated(exp: Experiment, ids: Sequence[int]) -> Experiment:
    """The experiment with these clients as those that an evaluation asks."""
    kept = []
    for cohort in exp.cohorts:
        places = tuple(k for k, i in enumerate(cohort.ids) if i in ids)
        if places:
            kept.append(
                dataclasses.replace(
                    cohort,
                    scoring=BY_CLIENT,
                    persistence=STATEFUL,
                    sample=places,
                )
            )
    tests = cohorts_.evaluation_tables(kept, exp.partition)
    return exp._replace(cohorts=tuple(kept), test=tests)


def merge_evaluations(
    exp: Experiment, said: Mapping[int, Answer], like: UploadShapes, among: Experiment
) -> list[dict]:
    """Sums of an evaluation, per cohort of those that are evaluated.

    Args:
      exp: of the federation.
      among: of `restrict_evaluated`.
    """
    forms = dict(zip((c.name for c in exp.cohorts), like.sums, strict=True))
    found = []
    for cohort in among.cohorts:
        ids = cohorts_.evaluated_ids(cohort)
        each = [_tree(said[i], forms[cohort.name]) for i in ids]
        found.append(jax.tree.map(lambda *a: np.stack(a), *each))
    return found


def _tree(answer: Answer, form: Tree) -> Tree:
    leaves, structure = jax.tree.flatten(form)
    arrays = [
        np.frombuffer(answer[f"{n}"], a.dtype).reshape(a.shape)
        for n, a in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, arrays)
