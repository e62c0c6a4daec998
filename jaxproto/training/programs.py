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

from jaxproto import federation, gather, kernels, mesh, persistence, transforms
from jaxproto.evaluation import EvaluationInputs
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import OFF_DEVICE, CohortPlan
from jaxproto.experiment.traced import Floats
from jaxproto.method import Method, no_pre_upload
from jaxproto.participation import Participation
from jaxproto.types import Array, Client, Protos, Spec, Tree


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
    # Uploads, Report
    scatter: tuple[Callable | None, ...]  # clients, places, trained -> clients
    update: Callable  # RoundContext, server, uploads -> server
    tested: tuple[Callable | None, ...]  # clients -> those that each call evaluates
    evaluate: tuple[Callable, ...]  # down, clients, examples, tests -> {rule: {metric:
    # sums [R, ...]}}, or what `evaluate_examples` returns
    diagnostics: Callable  # server -> {name: scalar}, logged every round


def replicate(exp: Experiment, tree: Tree) -> Tree:
    """Arrays as programs get what all devices have."""
    return exp.layout.put(tree, mesh.REPLICATED)


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
    ids = exp.layout.shard_ids(ids, len(exp.counts.train))
    return ids, exp.layout.shard_rows(count)


def num_rows(exp: Experiment, cohort: CohortPlan) -> int:
    """Returns the rows that a call gets of clients that are not on the device.

    On several devices they are as many as fill them.
    """
    number = exp.layout.num_devices
    return (
        mesh.rows_per_device(-(-cohort.num_rows // cohort.num_lanes), number) * number
    )


def shapes_of_call(
    exp: Experiment, cohort: CohortPlan, tree: Tree, lanes: int = 1
) -> Tree:
    """Returns the shapes that a call gets of arrays [K, ...] of all clients."""
    hosted, number = exp.store in OFF_DEVICE, exp.layout.num_devices

    def one(a):
        rows = mesh.rows_per_device(-(-len(a) // lanes), number) * number
        rows = num_rows(exp, cohort) if hosted else rows
        return jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)

    return jax.tree.map(one, tree)


def build_programs(exp: Experiment) -> Programs:
    """Returns the programs of a run before they are compiled."""
    num, cohorts, formats = len(exp.partition.train), exp.cohorts, exp.formats

    def with_parts(f, *first):
        """Puts method, local training and sampler in the place of the floats."""
        return lambda floats, *args: f(*first, exp.parts(floats), *args)

    def start_clients(cohort, now, key, ids, count):
        return federation.init_cohort(now.method, now.local, cohort, key, count, ids)

    def start_server(now, key):
        return now.method.init_server(cohorts[0].net, key)

    def broadcast(now, server):
        return federation.broadcast(now.method, server, formats)

    def participate(now, context, server):
        key, r = sampling_key(context), context.r
        return federation.draw_participants(now, num, key, server, r)

    def in_cohort(step, cohort, now, inputs, *rows):
        (r, key), who, down = inputs
        key = jax.random.fold_in(key, federation.TRAINING)
        local = now.local.at_round(r)
        given = federation.RoundInputs(now.method, local, formats, who, down, key)
        return step(given, cohort, *rows)

    def on_server(step, stream, now, context, server, uploads):
        key = jax.random.fold_in(context.key, stream)
        return step(now.method, cohorts, key, server, uploads)

    def evaluate(cohort, now, down, clients, examples, tests):
        rules = cohort.scoring.rules
        given = EvaluationInputs(now.method, cohort, exp.metrics, down, examples, rules)
        return cohort.scoring.evaluate(given, clients, tests)

    def diagnostics(now, server):
        return prototype_diagnostics(now.method, exp.spec, server)

    def for_each(f, *first):
        return tuple(with_parts(f, *first, cohort) for cohort in cohorts)

    moved = [moves(exp, cohort) for cohort in cohorts]
    twice = exp.method.pre_upload is not no_pre_upload
    first = federation.pre_aggregate_server, federation.FIRST
    aggregate_first = with_parts(on_server, *first)
    return Programs(
        start_clients=for_each(start_clients),
        start_server=with_parts(start_server),
        broadcast=with_parts(broadcast),
        participate=with_parts(participate),
        gather=tuple(of.gather for of in moved),
        pre_upload=for_each(in_cohort, federation.pre_upload_cohort) if twice else (),
        pre_aggregate=aggregate_first if twice else None,
        train=for_each(in_cohort, federation.train_cohort),
        scatter=tuple(of.scatter for of in moved),
        update=with_parts(on_server, federation.update_server, federation.SERVER),
        tested=tuple(of.tested for of in moved),
        evaluate=for_each(evaluate),
        diagnostics=with_parts(diagnostics),
    )


class Moves(NamedTuple):
    """The programs that bring clients of a cohort to calls, and back; None: all are."""

    gather: Callable | None = None
    scatter: Callable | None = None
    tested: Callable | None = None


def moves(exp: Experiment, cohort: CohortPlan) -> Moves:
    """Returns how clients on the device get to the calls of a cohort."""
    asked, lanes = cohort.evaluated, cohort.num_lanes
    dealt, last = lane_places(len(asked), lanes), len(asked) - 1
    parts = [asked[np.minimum(at, last)] for at in dealt]

    def take(floats, who, clients, shards):
        del floats
        return gather.gather(who, clients, shards, cohort.num_rows, lanes)

    def put(floats, clients, places, trained):
        del floats
        return gather.scatter(clients, places, trained)

    def tested(floats, clients):
        del floats
        return [gather.take_rows(clients, jnp.asarray(part)) for part in parts]

    if exp.store in OFF_DEVICE:
        return Moves()
    split = lanes > 1 or cohort.sampled
    chosen = lanes > 1 or len(asked) < len(cohort.ids)
    trains = Moves(take, put) if split else Moves()
    return trains._replace(tested=tested) if chosen and not cohort.stateless else trains


def lane_places(count: int, lanes: int) -> list[np.ndarray]:
    """Returns which of `count` rows each lane gets; `count` and more is none."""
    return list(np.arange(-(-count // lanes) * lanes).reshape(-1, lanes).T)


def prototype_diagnostics(method: Method, spec: Spec, server: Tree) -> dict[str, Array]:
    """Angles between global prototypes, and what transforms tell of their work."""
    down = method.broadcast(server)
    whole = spec.feat_dim  # angles of compressed prototypes would mean nothing
    protos = isinstance(down, Protos) and down.mean.shape[-1] == whole
    names = ("smallest_angle", "mean_angle") if protos else ()
    between = {name: getattr(kernels, name)(down) for name in names}
    return {**between, **transforms.diagnostics_of(server)}
