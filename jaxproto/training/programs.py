"""Programs of a run: up to seven per cohort, and six for the server.

They are the parts of `federation.one_round`. Separate programs let architectures and
lanes train side by side, and clients need not all be on the device.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import federation, gather, kept_state, kernels, mesh, transforms
from jaxproto.evaluation import EvaluationInputs
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.experiment.traced import Floats
from jaxproto.jax_settings import make_key
from jaxproto.participation import Participation
from jaxproto.training.debug_nans import locate_nans
from jaxproto.types import Array, Client, Protos, Spec, Tree


class State(NamedTuple):
    """Complete state of a run between two rounds."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]
    traffic: np.ndarray  # [2] int64 bytes so far, up and down
    watched: Tree = ()  # {name: [eval_every]} of `diagnostics`, or ()


class RoundContext(NamedTuple):
    """Number and key of a round, as arguments of programs that all rounds share."""

    r: Array  # [] number, from 0
    key: Array  # of all randomness of the round


class RoundArguments(NamedTuple):
    """Arguments of the clients' programs that all participants of a round share."""

    context: RoundContext
    participants: Participation
    down: Tree  # the broadcast, after the wire


class Programs(NamedTuple):
    """Programs that all rounds, seeds and floats of a configuration share.

    Tuples have one program per cohort. `gather`, `scatter` and `tested` have None where
    no rows move, as a call has all clients of a cohort. For methods with one exchange,
    `pre_upload` is empty and `pre_aggregate` None. Programs take the floats before the
    arguments listed here, except those from `with_floats`.
    """

    start_clients: tuple[Callable, ...]  # key, ids, counts -> clients before round 1
    start_server: Callable  # key -> server before round 1
    broadcast: Callable  # server -> Broadcast
    participate: Callable  # RoundContext, server -> Participation
    gather: tuple[Callable | None, ...]  # participants, clients, shards ->
    # [ParticipantRows]
    pre_upload: tuple[Callable, ...]  # RoundArguments, clients, examples, shards ->
    # Uploads, PreReport
    pre_aggregate: Callable | None  # RoundContext, server, pre_uploads -> server
    train: tuple[Callable, ...]  # RoundArguments, clients, examples, shards ->
    # clients, Uploads, Report
    scatter: tuple[Callable | None, ...]  # clients, places, trained -> clients
    update: Callable  # RoundContext, server, uploads -> server
    tested: tuple[Callable | None, ...]  # clients -> clients of each call
    evaluate: tuple[Callable, ...]  # down, clients, examples, tests -> {rule: {metric:
    # sums [R, ...]}}, or what `evaluate_examples` returns
    diagnostics: Callable  # server -> {name: scalar}, logged every round


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


def keys(seed: int):
    """Returns the keys of clients, server and rounds."""
    return jax.random.split(make_key(seed), 3)


def round_context(seed: int, r: int) -> RoundContext:
    """Returns the context of round `r`, from 0."""
    return RoundContext(jnp.int32(r), jax.random.fold_in(keys(seed)[2], r))


def sampling_key(context: RoundContext) -> Array:
    """Returns the key that draws the participants of a round."""
    return jax.random.fold_in(context.key, federation.SAMPLING)


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


def num_rows(exp: Experiment, cohort: CohortPlan) -> int:
    """Returns the number of rows of a call whose clients are not in the state."""
    return _padded_rows(exp, cohort.num_rows, cohort.num_lanes)


def _padded_rows(exp: Experiment, rows: int, lanes: int) -> int:
    devices = exp.layout.num_devices
    return mesh.rows_per_device(-(-rows // lanes), devices) * devices


def shapes_of_call(
    exp: Experiment, cohort: CohortPlan, tree: Tree, lanes: int = 1
) -> Tree:
    """Returns the shapes of a call's part of arrays [K, ...] of all clients."""

    def one(a):
        if exp.resident:
            rows = _padded_rows(exp, len(a), lanes)
        else:
            rows = num_rows(exp, cohort)
        return jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)

    return jax.tree.map(one, tree)


def build_programs(exp: Experiment) -> Programs:
    """Returns the programs of a run before they are compiled."""
    num_clients, cohorts = len(exp.partition.train), exp.cohorts

    def with_parts(f, *first):
        """Returns `f` as a function of the floats instead of the parts."""
        return lambda floats, *args: f(*first, exp.parts(floats), *args)

    def start_clients(cohort, parts, key, ids, count):
        return federation.init_cohort(
            parts.method, parts.local, cohort, key, count, ids
        )

    def start_server(parts, key):
        return parts.method.init_server(cohorts[0].net, key)

    def broadcast(parts, server):
        return federation.broadcast(parts.method, server, exp.formats)

    def participate(parts, context, server):
        key, r = sampling_key(context), context.r
        return federation.draw_participants(parts, num_clients, key, server, r)

    def inputs(floats, arguments):
        parts, ((r, key), who, down) = exp.parts(floats), arguments
        key = jax.random.fold_in(key, federation.TRAINING)
        local = parts.local.at_round(r)
        return federation.RoundInputs(
            parts.method, local, exp.formats, who, down, key, parts.timing
        )

    def in_cohort(step, cohort):
        return lambda floats, arguments, *rows: step(
            inputs(floats, arguments), cohort, *rows
        )

    def on_server(name, stream, parts, context, server, uploads):
        key = jax.random.fold_in(context.key, stream)
        aggregation = getattr(parts.method, name)
        return federation.update_server(cohorts, aggregation, key, server, uploads)

    def evaluate(cohort, parts, down, clients, examples, tests):
        scoring = cohort.scoring
        inputs = EvaluationInputs(
            parts.method, cohort, exp.metrics, down, examples, scoring.rules
        )
        return scoring.evaluate(inputs, clients, tests)

    def for_each(f):
        return tuple(with_parts(f, cohort) for cohort in cohorts)

    # cohorts of which a call does not train, or does not evaluate, all clients
    trained_in_parts = [c for c in exp.resident if c.num_lanes > 1 or c.sampled]
    evaluated_in_parts = [
        c
        for c in exp.resident
        if not c.stateless and (c.num_lanes > 1 or len(c.evaluated) < len(c.ids))
    ]

    def moving(f, in_parts):
        return tuple(partial(f, c) if c in in_parts else None for c in cohorts)

    with_pre_upload = cohorts if exp.method.two_exchanges else ()
    pre_aggregate = with_parts(on_server, "first_aggregation", federation.FIRST)
    return Programs(
        start_clients=for_each(start_clients),
        start_server=with_parts(start_server),
        broadcast=with_parts(broadcast),
        participate=with_parts(participate),
        gather=moving(_gather, trained_in_parts),
        pre_upload=tuple(
            in_cohort(federation.pre_upload_cohort, c) for c in with_pre_upload
        ),
        pre_aggregate=pre_aggregate if with_pre_upload else None,
        train=tuple(in_cohort(federation.train_cohort, c) for c in cohorts),
        scatter=moving(_scatter, trained_in_parts),
        update=with_parts(on_server, "aggregation", federation.SERVER),
        tested=moving(_tested, evaluated_in_parts),
        evaluate=for_each(evaluate),
        diagnostics=with_parts(prototype_diagnostics, exp.spec),
    )


def _gather(cohort: CohortPlan, floats, who, clients, shards):
    """Gathers the participants of a cohort."""
    return gather.gather(who, clients, shards, cohort.num_rows, cohort.num_lanes)


def _scatter(cohort: CohortPlan, floats, clients, places, trained):
    """Returns all clients of a cohort with the trained participants."""
    return gather.scatter(clients, places, trained)


def _tested(cohort: CohortPlan, floats, clients):
    """Returns the clients that each call evaluates."""
    places = mesh.interleaved_order(len(cohort.evaluated), cohort.num_lanes)
    places = cohort.evaluated[places].reshape(cohort.num_lanes, -1)
    return [gather.take_rows(clients, jnp.asarray(place)) for place in places]


def prototype_diagnostics(
    spec: Spec, parts: federation.Parts, server: Tree
) -> dict[str, Array]:
    """Returns angles between global prototypes, and diagnostics of transforms."""
    down, angles = parts.method.broadcast(server), {}
    # angles of compressed prototypes would mean nothing
    if isinstance(down, Protos) and down.mean.shape[-1] == spec.feat_dim:
        angles["smallest_angle"] = kernels.smallest_angle(down)
        angles["mean_angle"] = kernels.mean_angle(down)
    return {**angles, **transforms.diagnostics_of(server)}
