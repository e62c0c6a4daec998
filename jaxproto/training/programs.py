"""The compiled programs of a run: up to six per cohort, five for the server.

They are the parts of `federation.one_round`, so that architectures, and the
participants of one, train side by side, and clients need not all be on the device.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import (
    evaluation,
    federation,
    gather,
    kernels,
    mesh,
    persistence,
    transforms,
)
from jaxproto.evaluation import EvaluationInputs
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import OFF_DEVICE, CohortPlan
from jaxproto.experiment.traced import Floats
from jaxproto.method import Method, no_pre_upload
from jaxproto.participation import Participation
from jaxproto.types import Array, Client, Protos, Shard, Spec, Tree


class State(NamedTuple):
    """All that a run is between two rounds; nothing else exists."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]
    traffic: np.ndarray  # [2] int64 bytes so far, up and down
    watched: Tree = ()  # {name: [eval_every]} of `diagnostics`, or nothing


class RoundContext(NamedTuple):
    """A round. An argument of programs, so that all rounds and seeds share them."""

    r: Array  # [] its number, from 0
    key: Array  # of all that is random in it


class RoundInputs(NamedTuple):
    """What all participants of a round get."""

    context: RoundContext
    participants: Participation
    down: Tree  # the broadcast, after the wire


class Programs(NamedTuple):
    """Compiled, once for all rounds, seeds and floats of a configuration.

    Tuples have a program for each cohort. `gather` and `scatter` are None where all
    clients of a cohort train in one call, and on the host where clients are there.
    `pre_upload` and `pre_aggregate` are there for a method with two exchanges. Each
    takes the floats before the arguments that are listed here, unless it comes from
    `with_floats`.
    """

    start_clients: tuple[Callable, ...]  # key, ids, counts -> clients before round 1
    start_server: Callable  # key -> server before round 1
    broadcast: Callable  # server -> Broadcast
    participate: Callable  # RoundContext, server -> Participation
    gather: tuple[Callable | None, ...]  # participants, clients, shards -> [Rows]
    pre_upload: tuple[Callable, ...]  # RoundInputs, clients, examples, shards
    pre_aggregate: Callable | None  # RoundContext, server, pre_uploads -> server
    train: tuple[Callable, ...]  # RoundInputs, clients, examples, shards -> clients,
    # Report
    scatter: tuple[Callable | None, ...]  # clients, places, trained -> clients
    update: Callable  # RoundContext, server, uploads -> server
    tested: tuple[Callable | None, ...]  # clients -> those that each call evaluates
    evaluate: tuple[Callable, ...]  # down, clients, examples, tests -> {rule: {metric:
    # sums [R, ...]}}, or what `evaluate_examples` returns
    diagnostics: Callable  # server -> {name: scalar}, logged every round


def replicate(exp: Experiment, tree: Tree) -> Tree:
    """Arrays as programs get what all devices have."""
    return tree if exp.layout is None else exp.layout.put(tree, mesh.REPLICATED)


def with_floats(
    programs: Programs, floats: Floats, place: Callable[[Tree], Tree] = lambda a: a
) -> Programs:
    """Programs that have got the floats of a run.

    Args:
      place: puts them where the programs are; see `replicate`.
    """
    on_device = place({path: jnp.float32(value) for path, value in floats.items()})
    return jax.tree.map(lambda f: partial(f, on_device), programs)


def keys(seed: int):
    """The keys of initialisation, server and rounds."""
    return jax.random.split(jax.random.key(seed), 3)


def round_context(seed: int, r: int) -> RoundContext:
    """Round `r` of the run with this seed."""
    return RoundContext(jnp.int32(r), jax.random.fold_in(keys(seed)[2], r))


def sampling_key(context: RoundContext) -> Array:
    """What says who takes part in a round."""
    return jax.random.fold_in(context.key, federation.SAMPLING)


def init(exp: Experiment, seed: int, programs: Programs) -> State:
    """The state before the first round.

    Args:
      programs: with the floats of the run.
    """
    begun = init_states(exp, replicate(exp, tuple(keys(seed))), programs)
    return State(*begun, np.zeros(2, np.int64))


def init_states(exp: Experiment, keys, programs: Programs) -> tuple[Tree, tuple]:
    """Server and clients before the first round, of one federation or of many.

    Args:
      keys: from `keys`, with a leading axis for many.
      programs: with floats.
    """
    client_key, server_key, _ = keys
    if exp.store in OFF_DEVICE:  # what they keep is not on the device
        who = [client_ids_and_counts(exp, cohort) for cohort in exp.cohorts]
        known = tuple(persistence.identities(count, ids) for ids, count in who)
        return programs.start_server(server_key), known
    who = [_dealt(exp, cohort) for cohort in exp.cohorts]
    each = zip(who, programs.start_clients, strict=True)
    clients = tuple(f(client_key, *own) for own, f in each)
    return programs.start_server(server_key), clients


def shapes(exp: Experiment, seed: int) -> State:
    """As `init`, of `jax.ShapeDtypeStruct`; nothing is compiled."""
    starting = with_floats(build_programs(exp), exp.floats)
    state = jax.eval_shape(lambda: init(exp, seed, starting))
    return state._replace(traffic=np.zeros(2, np.int64))


def client_ids_and_counts(exp: Experiment, cohort: CohortPlan) -> tuple[Array, Array]:
    """Ids of the clients of a cohort [K], and training examples per class [K, C]."""
    count_KC = exp.counts.train[list(cohort.ids)]
    return jnp.asarray(cohort.ids, jnp.int32), jnp.asarray(count_KC, jnp.float32)


def _dealt(exp: Experiment, cohort: CohortPlan) -> tuple[Array, Array]:
    """`client_ids_and_counts` where the programs of `exp` want them."""
    ids, count = client_ids_and_counts(exp, cohort)
    if exp.layout is None:
        return ids, count
    return exp.layout.shard_ids(ids, len(exp.counts.train)), exp.layout.shard_rows(
        count
    )


def num_rows(exp: Experiment, cohort: CohortPlan) -> int:
    """Returns the rows that a call gets of clients that are not on the device.

    On several devices they are as many as fill them.
    """
    number = exp.layout.num_devices if exp.layout else 1
    width = -(-cohort.num_rows // cohort.num_lanes)
    return mesh.rows_per_device(width, number) * number


def shapes_of_rows(exp: Experiment, cohort: CohortPlan, tree: Tree) -> Tree:
    """Returns the shapes that programs get for arrays [K, ...] of all clients."""
    number = exp.layout.num_devices if exp.layout else 1

    def one(a):
        hosted = exp.store in OFF_DEVICE
        rows = num_rows(exp, cohort) if hosted else len(a)
        rows = mesh.rows_per_device(rows, number) * number
        return jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)

    return jax.tree.map(one, tree)


def test_shapes_of_call(exp: Experiment, cohort: CohortPlan, tests: Tree) -> Tree:
    """Returns the shapes of what one call evaluates clients on."""
    lanes = 1 if exp.store in OFF_DEVICE else cohort.num_lanes

    def one(a):
        return jax.ShapeDtypeStruct((-(-len(a) // lanes), *a.shape[1:]), a.dtype)

    return shapes_of_rows(exp, cohort, jax.tree.map(one, tests))


def build_programs(exp: Experiment) -> Programs:
    """Returns the programs of a run before they are compiled."""
    num, cohorts, formats = len(exp.partition.train), exp.cohorts, exp.formats

    def with_parts(f, *first):
        """Puts method, local training and sampler in the place of the floats."""
        return lambda floats, *args: f(*first, exp.parts(floats), *args)

    def key(context, stage):
        return jax.random.fold_in(context.key, stage)

    def start_clients(cohort, now, key, ids, count):
        return federation.init_cohort(now.method, now.local, cohort, key, count, ids)

    def start_server(now, key):
        return now.method.init_server(cohorts[0].net, key)

    def broadcast(now, server):
        return federation.broadcast(now.method, server, formats)

    def participate(now, context, server):
        key, r = sampling_key(context), context.r
        return federation.draw_participants(now, num, key, server, r)

    def exchange(method, local, inputs):
        context, who, down = inputs
        stage = key(context, federation.TRAINING)
        return federation.RoundInputs(method, local, formats, who, down, stage)

    def train(cohort, now, inputs, clients, examples, shards):
        local = now.local.at_round(inputs.context.r)
        method = now.method.collecting() if exp.check_wire else now.method
        given = exchange(method, local, inputs)
        return federation.train_cohort(given, cohort, clients, examples, shards)

    def update(now, context, server, ups):
        method = now.method.collecting() if exp.check_wire else now.method
        stage = key(context, federation.SERVER)
        return federation.update_server(method, cohorts, stage, server, ups)

    def pre_upload(cohort, now, inputs, clients, examples, shards):
        given = exchange(now.method, now.local, inputs)
        return federation.pre_upload_cohort(given, cohort, clients, examples, shards)

    def pre_aggregate(now, context, server, ups):
        stage = key(context, federation.FIRST)
        return federation.pre_aggregate_server(now.method, cohorts, stage, server, ups)

    def evaluate(cohort, now, down, clients, examples, tests):
        given = EvaluationInputs(now.method, cohort, exp.metrics, down, examples)
        if not cohort.stateless:
            return evaluation.evaluate_cohort(given, clients, tests)
        by_client = isinstance(tests, Shard)  # on a node, or for more than accuracy
        f = evaluation.evaluate_shared if by_client else evaluation.evaluate_examples
        return f(given, cohort.stateless_rules, clients, tests)

    def diagnostics(now, server):
        return prototype_diagnostics(now.method, exp.spec, server)

    def for_each(f):
        return tuple(with_parts(f, cohort) for cohort in cohorts)

    moves = [_moves(exp, cohort) for cohort in cohorts]
    twice = exp.method.pre_upload is not no_pre_upload
    return Programs(
        start_clients=for_each(start_clients),
        start_server=with_parts(start_server),
        broadcast=with_parts(broadcast),
        participate=with_parts(participate),
        gather=tuple(map(_gather, cohorts, moves)),
        pre_upload=for_each(pre_upload) if twice else (),
        pre_aggregate=with_parts(pre_aggregate) if twice else None,
        train=for_each(train),
        scatter=tuple(_scatter if here else None for here in moves),
        update=with_parts(update),
        tested=tuple(_tested(exp, cohort) for cohort in cohorts),
        evaluate=for_each(evaluate),
        diagnostics=with_parts(diagnostics),
    )


def _moves(exp: Experiment, cohort: CohortPlan) -> bool:
    """Returns whether participants are gathered from arrays on the device."""
    split = cohort.num_lanes > 1 or cohort.num_rows < len(cohort.ids)
    return split and exp.store not in OFF_DEVICE


def _gather(cohort: CohortPlan, moves: bool) -> Callable | None:
    """Returns the program that gathers the participants of a cohort, if any."""

    def run(floats, who, clients, shards):
        del floats
        rows, lanes = cohort.num_rows, cohort.num_lanes
        return gather.gather(who, clients, shards, rows, lanes)

    return run if moves else None


def _scatter(floats, clients, places, trained):
    del floats
    return gather.scatter(clients, places, trained)


def _tested(exp: Experiment, cohort: CohortPlan) -> Callable | None:
    """Returns the program that picks the clients to evaluate; None for all at once."""
    if cohort.stateless or exp.store in OFF_DEVICE:
        return None
    if not cohort.evaluated and cohort.num_lanes == 1:
        return None
    asked = np.asarray(cohort.evaluated or range(len(cohort.ids)))
    parts = [asked[at] for at in lane_places(len(asked), cohort.num_lanes)]

    def run(floats, clients):
        del floats
        return [gather.take_rows(clients, jnp.asarray(part)) for part in parts]

    return run


def lane_places(count: int, lanes: int) -> list[np.ndarray]:
    """Returns which rows each lane gets, the last one again where none is left."""
    width = -(-count // lanes)
    rows = np.minimum(np.arange(width * lanes), count - 1)
    return list(rows.reshape(width, lanes).T)


def prototype_diagnostics(method: Method, spec: Spec, server: Tree) -> dict[str, Array]:
    """Angles between global prototypes, and what transforms tell of their work."""
    down = method.broadcast(server)
    whole = spec.feat_dim  # angles of compressed prototypes would mean nothing
    protos = isinstance(down, Protos) and down.mean.shape[-1] == whole
    names = ("smallest_angle", "mean_angle") if protos else ()
    between = {name: getattr(kernels, name)(down) for name in names}
    return {**between, **transforms.diagnostics_of(server)}
