"""The compiled programs of a run: three per cohort, five for the server.

A method with two exchanges has one more of each.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import devices, evaluation, federation, kernels, rows, transforms
from jaxproto.config.build import Experiment
from jaxproto.config.cohorts import HOSTED
from jaxproto.config.floats import Floats
from jaxproto.federation import Cohort
from jaxproto.method import Method, no_pre_upload
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


class Programs(NamedTuple):
    """Compiled, once for all rounds, seeds and floats of a configuration.

    Tuples have a program for each cohort; `pre_upload` and `pre_aggregate` are there
    for a method with two exchanges. Each takes the floats before the arguments that are
    listed here, unless it comes from `with_floats`.
    """

    start_clients: tuple[Callable, ...]  # key, ids, counts -> clients before round 1
    start_server: Callable  # key -> server before round 1
    broadcast: Callable  # server -> Broadcast
    participate: Callable  # RoundContext, server -> Participation
    pre_upload: tuple[Callable, ...]  # participants, down, clients, examples, shards
    pre_aggregate: Callable | None  # RoundContext, server, pre_uploads -> server
    train: tuple[Callable, ...]  # RoundContext, participants, down, clients, ...; with
    # the number of a lane before the clients where a cohort has lanes
    put_back: tuple[Callable | None, ...]  # clients, of all lanes -> clients; or None
    update: Callable  # RoundContext, server, uploads -> server
    evaluate: tuple[Callable, ...]  # down, clients, examples, tests -> {rule: {metric:
    # sums [K, ...]}}, or what `evaluate_network` says; lanes as of `train`
    diagnostics: Callable  # server -> {name: scalar}, logged every round
    fetch: tuple[Callable | None, ...] = ()  # on several devices: participants,
    # clients, shards -> their places, and both where they train; `put_back` then takes
    # clients, places and rows


def everywhere(exp: Experiment, tree: Tree) -> Tree:
    """Arrays as programs get what all devices have."""
    return tree if exp.layout is None else exp.layout.put(tree, devices.REPLICATED)


def with_floats(
    programs: Programs, floats: Floats, place: Callable[[Tree], Tree] = lambda a: a
) -> Programs:
    """Programs that have got the floats of a run.

    Args:
      place: puts them where the programs are; see `everywhere`.
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
    begun = first_states(exp, everywhere(exp, tuple(keys(seed))), programs)
    return State(*begun, np.zeros(2, np.int64))


def first_states(exp: Experiment, keys, programs: Programs) -> tuple[Tree, tuple]:
    """Server and clients before the first round, of one federation or of many.

    Args:
      keys: from `keys`, with a leading axis for many.
      programs: with floats.
    """
    client_key, server_key, _ = keys
    if exp.store in HOSTED:  # what they keep is not on the device
        who = [identities(exp, cohort) for cohort in exp.cohorts]
        known = tuple(federation.known_of(count, ids) for ids, count in who)
        return programs.start_server(server_key), known
    who = [_dealt(exp, cohort) for cohort in exp.cohorts]
    each = zip(who, programs.start_clients, strict=True)
    clients = tuple(f(client_key, *own) for own, f in each)
    return programs.start_server(server_key), clients


def shapes(exp: Experiment, seed: int) -> State:
    """As `init`, of `jax.ShapeDtypeStruct`; nothing is compiled."""
    starting = with_floats(functions(exp), exp.floats)
    state = jax.eval_shape(lambda: init(exp, seed, starting))
    return state._replace(traffic=np.zeros(2, np.int64))


def identities(exp: Experiment, cohort: Cohort) -> tuple[Array, Array]:
    """Ids of the clients of a cohort [K], and training examples per class [K, C]."""
    count_KC = exp.counts.train[list(cohort.ids)]
    return jnp.asarray(cohort.ids, jnp.int32), jnp.asarray(count_KC, jnp.float32)


def _dealt(exp: Experiment, cohort: Cohort) -> tuple[Array, Array]:
    """`identities` where the programs of `exp` want them."""
    ids, count = identities(exp, cohort)
    if exp.layout is None:
        return ids, count
    return exp.layout.dealt_ids(ids, len(exp.counts.train)), exp.layout.dealt(count)


def given(exp: Experiment, cohort: Cohort, tree: Tree) -> Tree:
    """Shapes of what programs get for arrays [K, ...] of the clients of a cohort.

    Of hosted clients there are as many as a round has, and on several devices as many
    as fill them.
    """
    number = exp.layout.number if exp.layout else 1

    def one(a):
        rows = cohort.room if exp.store in HOSTED else len(a)
        rows = devices.width(rows, number) * number
        return jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)

    return jax.tree.map(one, tree)


def functions(exp: Experiment) -> Programs:
    """The programs of a run before they are compiled."""
    num = len(exp.partition.train)
    parts, cohorts, formats = exp.parts, exp.cohorts, exp.formats

    def key(context, stage):
        return jax.random.fold_in(context.key, stage)

    def start_clients(cohort, floats, key, ids, count):
        now = parts(floats)
        return federation.init_cohort(now.method, now.local, cohort, key, count, ids)

    def start_server(floats, key):
        return parts(floats).method.init_server(cohorts[0].net, key)

    def broadcast(floats, server):
        return federation.broadcast(parts(floats).method, server, formats)

    def participate(floats, context, server):
        stream = sampling_key(context)
        return federation.taking_part(parts(floats), num, stream, server, context.r)

    def train(cohort, floats, context, participants, down, *rest):
        given = exchange(floats, context, participants, down)
        if cohort.lanes == 1:
            return federation.train_cohort(given, cohort, *rest)
        number, *rest = rest
        lane = rows.Lane(number, cohort.lanes)
        return federation.train_lane(given, cohort, lane, *rest)

    def put_back(floats, clients, lanes):
        del floats
        return federation.put_back(clients, lanes)

    def exchange(floats, context, participants, down):
        now, stage = parts(floats), key(context, federation.TRAINING)
        local, method = now.local.at_round(context.r), collecting(exp, now.method)
        return federation.Exchange(method, local, formats, participants, down, stage)

    def update(floats, context, server, ups):
        method = collecting(exp, parts(floats).method)
        stream = key(context, federation.SERVER)
        return federation.update_server(method, cohorts, stream, server, ups)

    def pre_upload(cohort, floats, participants, down, *rest):
        method, local, *_ = parts(floats)
        given = federation.Exchange(method, local, formats, participants, down, None)
        return federation.pre_upload_cohort(given, cohort, *rest)

    def pre_aggregate(floats, context, server, ups):
        method, stage = parts(floats).method, key(context, federation.FIRST)
        return federation.pre_aggregate_server(method, cohorts, stage, server, ups)

    def evaluate(cohort, floats, down, *rest):
        every = evaluation.evaluate_cohort
        f = every if cohort.keeps else evaluation.evaluate_network
        method = parts(floats).method
        if cohort.lanes == 1:
            return f(method, cohort, down, *rest)
        number, *rest = rest
        return f(method, cohort, down, *rest, lane=rows.Lane(number, cohort.lanes))

    def diagnostics(floats, server):
        return diagnose(parts(floats).method, exp.spec, server)

    def for_each(f):
        return tuple(partial(f, cohort) for cohort in cohorts)

    twice = exp.method.pre_upload is not no_pre_upload
    return Programs(
        start_clients=for_each(start_clients),
        start_server=start_server,
        broadcast=broadcast,
        participate=participate,
        pre_upload=for_each(pre_upload) if twice else (),
        pre_aggregate=pre_aggregate if twice else None,
        train=for_each(train),
        put_back=tuple(None if c.lanes == 1 else put_back for c in cohorts),
        update=update,
        evaluate=for_each(evaluate),
        diagnostics=diagnostics,
    )


def collecting(exp: Experiment, method: Method) -> Method:
    """The method, whose server gets every upload where each is checked."""
    if not exp.check_wire:
        return method
    return dataclasses.replace(method, update=method.aggregation.of_uploads())


def diagnose(method: Method, spec: Spec, server: Tree) -> dict[str, Array]:
    """Angles between global prototypes, and what transforms tell of their work."""
    down = method.broadcast(server)
    whole = spec.feat_dim  # angles of compressed prototypes would mean nothing
    protos = isinstance(down, Protos) and down.mean.shape[-1] == whole
    names = ("smallest_angle", "mean_angle") if protos else ()
    between = {name: getattr(kernels, name)(down) for name in names}
    return {**between, **transforms.watched(server)}


SHARED = {"start_clients": 2, "pre_upload": 2, "train": 2, "evaluate": 2}  # of the
# last arguments, what all federations have: ids, counts; examples and shards


def lanes(cohort: Cohort, put_back: Callable | None) -> int:
    """Lanes of a cohort in compiled programs; those of many federations have one."""
    return cohort.lanes if put_back is not None else 1


def in_one_lane(exp: Experiment) -> Experiment:
    """The same, with one program that trains a cohort."""
    return exp._replace(cohorts=tuple(c._replace(lanes=1) for c in exp.cohorts))


def of_many(functions: Programs) -> Programs:
    """The programs of many federations: a leading axis on all but their data."""

    def over(shared):
        def mapped(f, *args):
            own = len(args) - shared
            return jax.vmap(f, in_axes=(0,) * own + (None,) * shared)(*args)

        return lambda f: partial(mapped, f)

    made = {
        name: jax.tree.map(over(SHARED.get(name, 0)), part)
        for name, part in functions._asdict().items()
    }
    return Programs(**made)


def stacked(trees: Sequence[Tree]) -> Tree:
    """Trees of equal form as one, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
