"""The compiled programs of a run: two per cohort, four for the server.

A method with two exchanges has one more of each.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import execution, federation, kernels, participation, transforms
from jaxproto.config.build import Experiment
from jaxproto.method import Method, no_pre_upload
from jaxproto.training import compilation, memory, program_cache
from jaxproto.training.program_cache import Wrap
from jaxproto.types import Array, Client, Examples, Protos, Spec, Tree


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
    """Compiled, once for all rounds and seeds.

    `Programs.train`, `pre_upload` and `evaluate` have one for each cohort; `pre_upload`
    and `pre_aggregate` are there for a method with two exchanges.
    """

    broadcast: Callable  # server -> Broadcast
    participate: Callable  # RoundContext, server -> Participation
    pre_upload: tuple[Callable, ...]  # participants, down, clients, examples, shards
    pre_aggregate: Callable | None  # RoundContext, server, pre_uploads -> server
    train: tuple[Callable, ...]  # RoundContext, participants, down, clients, ...
    update: Callable  # RoundContext, server, uploads -> server
    evaluate: tuple[Callable, ...]  # down, clients, examples, shards -> {rule: [K]}
    diagnostics: Callable  # server -> {name: scalar}, logged every round


def keys(seed: int):
    """The keys of initialisation, server and rounds."""
    return jax.random.split(jax.random.key(seed), 3)


def round_context(seed: int, r: int) -> RoundContext:
    """Round `r` of the run with this seed."""
    return RoundContext(jnp.int32(r), jax.random.fold_in(keys(seed)[2], r))


@compilation.garbage_later()
def init(
    exp: Experiment,
    seed: int,
    wrap: Wrap = program_cache.uncached,
    done: Callable[[str], object] = str,
) -> State:
    """The state before the first round; `wrap` and `done` as in compile_all."""
    client_key, server_key, _ = keys(seed)
    one = partial(federation.init_cohort, exp.method, exp.local)
    with compilers() as workers:

        def start(name, f, *args):
            lowered = jax.jit(wrap(name, f, args)).lower(*args)
            started = workers.submit(lambda: lowered.compile()(*args))
            started.add_done_callback(lambda _: done(name))
            return started

        def cohort_start(cohort):
            count = jnp.asarray(exp.counts.train[list(cohort.ids)], jnp.float32)
            name = f"first {cohort.name}"
            return start(name, partial(one, cohort), client_key, count)

        started = [cohort_start(cohort) for cohort in exp.cohorts]
        net = exp.cohorts[0].net
        first = partial(exp.method.init_server, net)
        server = start("first server", first, server_key).result()
        clients = tuple(c.result() for c in started)
    return State(server, clients, np.zeros(2, np.int64))


def shapes(exp: Experiment, seed: int) -> State:
    """As `init`, of `jax.ShapeDtypeStruct`; nothing is compiled."""
    client_key, server_key, _ = keys(seed)
    one = partial(federation.init_cohort, exp.method, exp.local)

    def cohort(group):
        count = jnp.asarray(exp.counts.train[list(group.ids)], jnp.float32)
        return jax.eval_shape(partial(one, group), client_key, count)

    first = partial(exp.method.init_server, exp.cohorts[0].net)
    clients = tuple(map(cohort, exp.cohorts))
    server = jax.eval_shape(first, server_key)
    return State(server, clients, np.zeros(2, np.int64))


def functions(exp: Experiment) -> Programs:
    """The programs of a run before they are compiled."""
    num = len(exp.partition.train)
    method, cohorts, formats = exp.method, exp.cohorts, exp.formats

    def key(context, stage):
        return jax.random.fold_in(context.key, stage)

    def exchange(participants, down, local=exp.local, key=None):
        return federation.Exchange(method, local, formats, participants, down, key)

    def participate(context, server):
        sampler = method.adjust_sampler(exp.sampler, server)
        sampler = participation.with_dropouts(sampler, exp.dropout)
        return sampler(key(context, 0), num, context.r)

    def train(cohort, context, participants, down, *rest):
        local = exp.local.at_round(context.r)
        given = exchange(participants, down, local, key(context, 1))
        return federation.train_cohort(given, cohort, *rest)

    def update(context, server, ups):
        stage = key(context, 2)
        return federation.update_server(method, cohorts, stage, server, ups)

    def pre_upload(cohort, participants, down, *rest):
        given = exchange(participants, down)
        return federation.pre_upload_cohort(given, cohort, *rest)

    def pre_aggregate(context, server, ups):
        stage = key(context, 3)
        return federation.pre_aggregate_server(method, cohorts, stage, server, ups)

    def for_each(f):
        return tuple(partial(f, cohort) for cohort in cohorts)

    twice = method.pre_upload is not no_pre_upload
    return Programs(
        broadcast=lambda server: federation.broadcast(method, server, formats),
        participate=participate,
        pre_upload=for_each(pre_upload) if twice else (),
        pre_aggregate=pre_aggregate if twice else None,
        train=for_each(train),
        update=update,
        evaluate=for_each(partial(federation.evaluate_cohort, method)),
        diagnostics=partial(diagnose, method, exp.spec),
    )


def diagnose(method: Method, spec: Spec, server: Tree) -> dict[str, Array]:
    """Angles between global prototypes, and what transforms tell of their work."""
    down = method.broadcast(server)
    whole = spec.feat_dim  # angles of compressed prototypes would mean nothing
    protos = isinstance(down, Protos) and down.mean.shape[-1] == whole
    names = ("smallest_angle", "mean_angle") if protos else ()
    between = {name: getattr(kernels, name)(down) for name in names}
    return {**between, **transforms.watched(server)}


def compilers() -> ThreadPoolExecutor:
    """Two threads compile what is lowered while more is traced; four on eight cores.

    No more: XLA itself uses several, and every program that is being compiled holds a
    GiB or more if its network is large.
    """
    return ThreadPoolExecutor(max(2, min(4, (os.cpu_count() or 1) // 2)))


@compilation.garbage_later()
def compile_all(
    exp: Experiment,
    state: State,
    examples: Examples,
    wrap: Wrap = program_cache.uncached,
    done: Callable[[str], object] = str,
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> what is compiled in the function's place.
      done: told the name of each program when it is compiled, by several threads.

    Returns:
      The programs, and the seconds it took.
    """
    clock = time.perf_counter()
    with compilers() as workers:

        def submit(name, f, *args, **options):
            lowered = jax.jit(wrap(name, f, args), **options).lower(*args)
            program = workers.submit(lowered.compile)
            program.add_done_callback(lambda _: done(name))
            return Compiling(lowered.out_info, program)

        made = submit_all(submit, exp, functions(exp), state, examples)
        compiled = jax.tree.map(
            lambda a: a.program.result(), made, is_leaf=lambda a: type(a) is Compiling
        )
    return compiled, time.perf_counter() - clock


class Compiling(NamedTuple):
    """A program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future[jax.stages.Compiled]


def submit_all(submit, exp: Experiment, f: Programs, state: State, examples: Examples):
    """Programs, each as what `submit` makes of a name, a function and its arguments."""
    context, server, clients = round_context(0, 0), state.server, state.clients
    broadcast = submit("broadcast", f.broadcast, server)
    participate = submit("participate", f.participate, context, server)
    down, participants = broadcast.out.message, participate.out

    def for_each(stage, programs, shards, *args, **options):
        rows = zip(exp.cohorts, programs, clients, shards, strict=bool(programs))
        return tuple(
            submit(
                f"{stage} {cohort.name}", g, *args, down, c, examples, shard, **options
            )
            for cohort, g, c, shard in rows
        )

    train = for_each(
        "train", f.train, exp.train, context, participants, donate_argnums=3
    )
    evaluate = for_each("evaluate", f.evaluate, exp.test)
    asked = for_each("pre-upload", f.pre_upload, exp.train, participants)
    first, ups = (tuple(p.out.up for p in asked), tuple(p.out[1].up for p in train))
    pre_aggregate = f.pre_aggregate and submit(
        "pre-aggregate", f.pre_aggregate, context, server, first
    )
    return Programs(
        broadcast=broadcast,
        participate=participate,
        pre_upload=asked,
        pre_aggregate=pre_aggregate,
        train=train,
        update=submit("update", f.update, context, server, ups),
        evaluate=evaluate,
        diagnostics=submit("diagnostics", f.diagnostics, server),
    )


def compile_to_fit(
    exp: Experiment,
    state: State,
    examples: Examples,
    limit: int | None,
    wrap: Wrap = program_cache.uncached,
    done: Callable[[str], object] = str,
) -> tuple[Experiment, Programs, float, int]:
    """Compiles; halves the clients that run at a time until the estimate fits.

    Args:
      limit: bytes of device memory, None where it is not known.
      wrap, done: as in compile_all.

    Returns:
      The experiment in the modes that fit, its programs, the seconds it took, and the
      bytes that they need by XLA's account.
    """
    compiled, seconds = compile_all(exp, state, examples, wrap, done)
    need = memory.needed(jax.tree.leaves(compiled))
    chunk = max(len(cohort.ids) for cohort in exp.cohorts)
    while limit is not None and need > limit and chunk > 1:
        chunk = -(-chunk // 2)
        mode = execution.in_chunks(chunk)
        exp = exp._replace(cohorts=tuple(c._replace(mode=mode) for c in exp.cohorts))
        again = partial(_renamed, wrap, f" by {chunk}")
        compiled, more = compile_all(exp, state, examples, again, done)
        seconds, need = seconds + more, memory.needed(jax.tree.leaves(compiled))
    return exp, compiled, seconds, need


def _renamed(wrap: Wrap, suffix: str, name: str, f: Callable, args: tuple):
    """The same function in another form is another program."""
    return wrap(name + suffix, f, args)
