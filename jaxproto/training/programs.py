"""Table of the programs of a run (`Programs`).

They are the parts of `federation.one_round`. Separate programs let architectures and
parts of a cohort train side by side, and clients need not all be on the device.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array, Client, Protos, Tree
from jaxproto.devices import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.experiment.traced import Floats
from jaxproto.prototypes import kernels, transforms
from jaxproto.round import federation, gather, kept_state
from jaxproto.round.evaluation import EvaluationInputs
from jaxproto.training import data_placement
from jaxproto.training import kinds as k
from jaxproto.training.debug_nans import locate_nans
from jaxproto.training.program import EACH, Program, Row


class State(NamedTuple):
    """Complete state of a run between two rounds."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]
    traffic: np.ndarray  # [2] int64 bytes so far, up and down
    watched: Tree = ()  # {name: [eval_every]} of `diagnostics`, or ()


Context = tuple[Array, Array]  # number of a round, from 0, and key of its randomness
RoundContexts = Callable[[Array], Context]  # of a round's number


def keys(seed: int):
    """Returns the keys of clients, server and rounds."""
    return federation.split_key(make_key(seed))


def round_context(seed: int, r: int) -> Context:
    """Returns the context of round `r`, from 0."""
    return jnp.int32(r), federation.round_key(keys(seed)[2], r)


def sampling_key(context: Context) -> Array:
    """Returns the key that draws the participants of a round."""
    return jax.random.fold_in(context[1], federation.SAMPLING)


def _start_clients(exp, cohort, floats, key, ids, count):
    parts = exp.parts(floats)
    return federation.init_cohort(parts.method, parts.local, cohort, key, count, ids)


def _start_server(exp, floats, key):
    return exp.parts(floats).method.init_server(exp.cohorts[0].net, key)


def _broadcast(exp, floats, server):
    return federation.broadcast(exp.parts(floats).method, server, exp.formats)


def _participate(exp, floats, context, server):
    parts, key = exp.parts(floats), sampling_key(context)
    num_clients = len(exp.partition.train)
    return federation.draw_participants(parts, num_clients, key, server, context[0])


def _inputs(exp, floats, context, who, down) -> federation.RoundInputs:
    parts, (r, key) = exp.parts(floats), context
    key, formats = jax.random.fold_in(key, federation.TRAINING), exp.formats
    return federation.RoundInputs(
        parts.method, parts.local.at_round(r), formats, who, down, key, parts.timing
    )


def _pre_upload(exp, cohort, floats, context, who, down, *rows):
    inputs = _inputs(exp, floats, context, who, down)
    return federation.pre_upload_cohort(inputs, cohort, *rows)


def _pre_aggregate(exp, floats, *args):
    aggregation = exp.parts(floats).method.first_aggregation
    return _update_server(exp, aggregation, federation.FIRST, *args)


def _train(exp, cohort, floats, context, who, down, *rows):
    inputs = _inputs(exp, floats, context, who, down)
    return federation.train_cohort(inputs, cohort, *rows)


def _update(exp, floats, *args):
    aggregation = exp.parts(floats).method.aggregation
    return _update_server(exp, aggregation, federation.SERVER, *args)


def _update_server(exp, aggregation, stream, context, server, uploads):
    key = jax.random.fold_in(context[1], stream)
    return federation.update_server(exp.cohorts, aggregation, key, server, uploads)


def _gather(exp, cohort, floats, who, clients, shards):
    calls = exp.num_calls(cohort)
    return gather.gather(who, clients, shards, cohort.num_rows, calls)


def _scatter(exp, cohort, floats, clients, places, trained):
    return gather.scatter(clients, places, trained)


def _tested(exp, cohort, floats, clients):
    calls = exp.num_calls(cohort)
    places = cohort.evaluated[mesh.interleaved_order(len(cohort.evaluated), calls)]
    rows = map(jnp.asarray, places.reshape(calls, -1))
    return [gather.take_rows(clients, place) for place in rows]


def _evaluate(exp, cohort, floats, down, clients, examples, tests):
    method, scoring = exp.parts(floats).method, cohort.scoring
    inputs = EvaluationInputs(
        method, cohort, exp.metrics, down, examples, scoring.rules
    )
    return scoring.evaluate(inputs, clients, tests)


def _diagnostics(exp, floats, server):
    """Returns angles between global prototypes, and diagnostics of transforms."""
    down, angles = exp.parts(floats).method.broadcast(server), {}
    # angles of compressed prototypes would mean nothing
    if isinstance(down, Protos) and down.mean.shape[-1] == exp.spec.feat_dim:
        angles["smallest_angle"] = kernels.smallest_angle(down)
        angles["mean_angle"] = kernels.mean_angle(down)
    return {**angles, **transforms.diagnostics_of(server)}


def _trained_in_parts(exp: Experiment, cohort: CohortPlan) -> bool:
    """Returns whether a call trains only a part of the clients of a cohort."""
    return bool(exp.resident) and (exp.num_calls(cohort) > 1 or cohort.sampled)


def _evaluated_in_parts(exp: Experiment, cohort: CohortPlan) -> bool:
    """Returns whether a call evaluates only a part of the clients of a cohort."""
    whole = exp.num_calls(cohort) == 1 and len(cohort.evaluated) == len(cohort.ids)
    return bool(exp.resident) and not cohort.stateless and not whole


def _two_exchanges(exp: Experiment, *cohort: CohortPlan) -> bool:
    return exp.method.two_exchanges


ROUND = k.CONTEXT, k.PARTICIPANTS, k.DOWN  # that all clients of a round share
TRAINING = *ROUND, k.ROWS, k.EXAMPLES, k.ROW_SHARDS
SERVER_STEP = k.CONTEXT, k.SERVER, k.UPLOADS


class Programs(NamedTuple):
    """Programs that all rounds, seeds and floats of a configuration share.

    The defaults are the table, in the order of a round. `build_programs` makes
    functions of it: one, or a tuple with one per cohort, and None for those that a run
    does not need. Their first arguments are the floats, except those of `with_floats`.
    """

    start_clients: Any = Row(
        _start_clients, (k.KEY, k.IDS, k.COUNTS), (k.CLIENTS,), EACH
    )
    start_server: Any = Row(_start_server, (k.KEY,), (k.SERVER,))
    broadcast: Any = Row(_broadcast, (k.SERVER,), (k.BROADCAST,))
    participate: Any = Row(_participate, (k.CONTEXT, k.SERVER), (k.PARTICIPANTS,))
    gather: Any = Row(
        _gather,
        (k.PARTICIPANTS, k.CLIENTS, k.SHARDS),
        (k.CALLS,),
        EACH,
        when=_trained_in_parts,
    )
    pre_upload: Any = Row(
        _pre_upload, TRAINING, (k.UPLOAD, k.REPORT), EACH, when=_two_exchanges
    )
    pre_aggregate: Any = Row(
        _pre_aggregate, SERVER_STEP, (k.SERVER,), when=_two_exchanges
    )
    train: Any = Row(
        _train, TRAINING, (k.TRAINED, k.UPLOAD, k.REPORT), EACH, donated=k.ROWS
    )
    scatter: Any = Row(
        _scatter,
        (k.CLIENTS, k.PLACES, k.ALL_TRAINED),
        (k.CLIENTS,),
        EACH,
        when=_trained_in_parts,
        donated=k.CLIENTS,
    )
    update: Any = Row(_update, SERVER_STEP, (k.SERVER,))
    tested: Any = Row(_tested, (k.CLIENTS,), (k.TESTED,), EACH, _evaluated_in_parts)
    evaluate: Any = Row(
        _evaluate, (k.DOWN, k.EVALUATED, k.EXAMPLES, k.TESTS), (k.SUMS,), EACH
    )
    diagnostics: Any = Row(_diagnostics, (k.SERVER,), (k.DIAGNOSTICS,))


def build_programs(exp: Experiment, table: Programs | None = None) -> Programs:
    """Returns the programs of a run before they are compiled.

    Args:
      table: Rows; by default those of one device.
    """
    own = {k.EXAMPLES.name: {"spec": data_placement.examples_spec(exp)}}

    def bind(row: Row, *cohort: CohortPlan) -> Program | None:
        if not row.when(exp, *cohort):
            return None
        whole = cohort and not _trained_in_parts(exp, *cohort)
        also = {k.ROW_SHARDS.name: {"axis": k.UNMAPPED}} if whole else {}
        args = [kind._replace(**(own | also).get(kind.name, {})) for kind in row.args]
        return Program(partial(row.f, exp, *cohort), tuple(args), row.out, row.donated)

    return Programs(
        *(
            tuple(bind(row, c) for c in exp.cohorts) if row.each else bind(row)
            for row in table or Programs()
        )
    )


def with_floats(
    programs: Programs, floats: Floats, place: Callable[[Tree], Tree] = lambda a: a
) -> Programs:
    """Binds the floats of a run as the first argument of programs.

    Args:
      place: Puts the floats on the devices of the programs.
    """
    on_device = place({path: jnp.float32(value) for path, value in floats.items()})
    return jax.tree.map(lambda f: partial(f, on_device), programs)


def jit_programs(exp: Experiment) -> Programs:
    """Returns the programs of a run, each compiled at its first call."""
    compiled = with_floats(jax.tree.map(jax.jit, build_programs(exp)), exp.floats)
    return locate_nans(compiled, partial(plain_programs, exp))


def plain_programs(exp: Experiment) -> Programs:
    """Returns the programs of a run without compilation."""
    return with_floats(build_programs(exp), exp.floats)


def plain_batched_programs(exp: Experiment, stacked: Floats) -> Programs:
    """Returns the programs of federations with stacked floats without compilation."""
    table = build_programs(exp)
    batched = jax.tree.map(lambda program: program.over_federations(mesh.ONE), table)
    return with_floats(batched, stacked)


def init(exp: Experiment, seed: int, programs: Programs) -> State:
    """Returns the state before round 1, by programs with the floats of the run."""
    layout, unused_id = exp.layout, len(exp.counts.train)
    client_key, server_key, _ = layout.put(tuple(keys(seed)))
    server = programs.start_server(server_key)
    pairs = [client_ids_and_counts(exp, cohort) for cohort in exp.cohorts]
    if exp.resident:
        ids = (layout.shard_ids(id_K, unused_id) for id_K, _ in pairs)
        counts = (layout.shard_rows(count_KC) for _, count_KC in pairs)
        starts = zip(programs.start_clients, ids, counts, strict=True)
        clients = tuple(f(client_key, *own) for f, *own in starts)
    else:
        clients = tuple(kept_state.identities(count, ids) for ids, count in pairs)
    return State(server, clients, np.zeros(2, np.int64))


def shapes(exp: Experiment, seed: int) -> State:
    """Returns the shapes of the state, without compilation."""
    programs = plain_programs(exp)
    state = jax.eval_shape(lambda: init(exp, seed, programs))
    return state._replace(traffic=np.zeros(2, np.int64))


def client_ids_and_counts(exp: Experiment, cohort: CohortPlan) -> tuple[Array, Array]:
    """Returns the client ids of a cohort [K] and its training examples [K, C]."""
    count_KC = exp.counts.train[list(cohort.ids)]
    return jnp.asarray(cohort.ids, jnp.int32), jnp.asarray(count_KC, jnp.float32)
