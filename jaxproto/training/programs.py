"""The compiled programs of a run: three per cohort, five for the server.

A method with two exchanges has one more of each.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import execution, federation, kernels, participation, transforms
from jaxproto.config.build import Experiment
from jaxproto.config.floats import Floats
from jaxproto.federation import Cohort
from jaxproto.method import Method, no_pre_upload
from jaxproto.training import compilation, memory, program_cache, threads
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
    """Compiled, once for all rounds, seeds and floats of a configuration.

    Tuples have a program for each cohort; `pre_upload` and `pre_aggregate` are there
    for a method with two exchanges. Each takes the floats before the arguments that are
    listed here, unless it comes from `with_floats`.
    """

    start_clients: tuple[Callable, ...]  # key, counts -> clients before round 1
    start_server: Callable  # key -> server before round 1
    broadcast: Callable  # server -> Broadcast
    participate: Callable  # RoundContext, server -> Participation
    pre_upload: tuple[Callable, ...]  # participants, down, clients, examples, shards
    pre_aggregate: Callable | None  # RoundContext, server, pre_uploads -> server
    train: tuple[Callable, ...]  # RoundContext, participants, down, clients, ...
    update: Callable  # RoundContext, server, uploads -> server
    evaluate: tuple[Callable, ...]  # down, clients, examples, shards -> {rule: [K]}
    diagnostics: Callable  # server -> {name: scalar}, logged every round


def with_floats(programs: Programs, floats: Floats) -> Programs:
    """Programs that have got the floats of a run."""
    on_device = {path: jnp.float32(value) for path, value in floats.items()}
    return jax.tree.map(lambda f: partial(f, on_device), programs)


def keys(seed: int):
    """The keys of initialisation, server and rounds."""
    return jax.random.split(jax.random.key(seed), 3)


def round_context(seed: int, r: int) -> RoundContext:
    """Round `r` of the run with this seed."""
    return RoundContext(jnp.int32(r), jax.random.fold_in(keys(seed)[2], r))


def init(exp: Experiment, seed: int, programs: Programs) -> State:
    """The state before the first round.

    Args:
      programs: with the floats of the run.
    """
    client_key, server_key, _ = keys(seed)
    rows = zip(exp.cohorts, programs.start_clients, strict=True)
    clients = tuple(f(client_key, class_counts(exp, cohort)) for cohort, f in rows)
    return State(programs.start_server(server_key), clients, np.zeros(2, np.int64))


def shapes(exp: Experiment, seed: int) -> State:
    """As `init`, of `jax.ShapeDtypeStruct`; nothing is compiled."""
    starting = with_floats(functions(exp), exp.floats)
    state = jax.eval_shape(lambda: init(exp, seed, starting))
    return state._replace(traffic=np.zeros(2, np.int64))


def class_counts(exp: Experiment, cohort: Cohort) -> Array:
    """Training examples per class of the clients of a cohort [K, C]."""
    return jnp.asarray(exp.counts.train[list(cohort.ids)], jnp.float32)


def functions(exp: Experiment) -> Programs:
    """The programs of a run before they are compiled."""
    num = len(exp.partition.train)
    parts, cohorts, formats = exp.parts, exp.cohorts, exp.formats

    def key(context, stage):
        return jax.random.fold_in(context.key, stage)

    def start_clients(cohort, floats, key, count):
        now = parts(floats)
        return federation.init_cohort(now.method, now.local, cohort, key, count)

    def start_server(floats, key):
        return parts(floats).method.init_server(cohorts[0].net, key)

    def broadcast(floats, server):
        return federation.broadcast(parts(floats).method, server, formats)

    def participate(floats, context, server):
        now = parts(floats)
        sampler = now.method.adjust_sampler(now.sampler, server)
        sampler = participation.with_dropouts(sampler, now.dropout)
        return sampler(key(context, 0), num, context.r)

    def train(cohort, floats, context, participants, down, *rest):
        now, stage = parts(floats), key(context, 1)
        local = now.local.at_round(context.r)
        given = federation.Exchange(
            now.method, local, formats, participants, down, stage
        )
        return federation.train_cohort(given, cohort, *rest)

    def update(floats, context, server, ups):
        method, stage = parts(floats).method, key(context, 2)
        return federation.update_server(method, cohorts, stage, server, ups)

    def pre_upload(cohort, floats, participants, down, *rest):
        method, local, *_ = parts(floats)
        given = federation.Exchange(method, local, formats, participants, down, None)
        return federation.pre_upload_cohort(given, cohort, *rest)

    def pre_aggregate(floats, context, server, ups):
        method, stage = parts(floats).method, key(context, 3)
        return federation.pre_aggregate_server(method, cohorts, stage, server, ups)

    def evaluate(cohort, floats, *rest):
        return federation.evaluate_cohort(parts(floats).method, cohort, *rest)

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
        update=update,
        evaluate=for_each(evaluate),
        diagnostics=diagnostics,
    )


def diagnose(method: Method, spec: Spec, server: Tree) -> dict[str, Array]:
    """Angles between global prototypes, and what transforms tell of their work."""
    down = method.broadcast(server)
    whole = spec.feat_dim  # angles of compressed prototypes would mean nothing
    protos = isinstance(down, Protos) and down.mean.shape[-1] == whole
    names = ("smallest_angle", "mean_angle") if protos else ()
    between = {name: getattr(kernels, name)(down) for name in names}
    return {**between, **transforms.watched(server)}


@compilation.garbage_later()
def compile_all(
    exp: Experiment,
    examples: Examples,
    wrap: Wrap = program_cache.uncached,
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> what is compiled in the function's place.

    Returns:
      The programs, and the seconds it took.
    """
    clock = time.perf_counter()
    with threads.compilers() as workers:

        def submit(name, f, *rest, **options):
            args = (exp.floats, *rest)
            lowered = jax.jit(wrap(name, f, args), **options).lower(*args)
            return Compiling(lowered.out_info, workers.submit(lowered.compile))

        made = submit_all(submit, exp, functions(exp), examples)
        compiled = jax.tree.map(
            lambda a: a.program.result(), made, is_leaf=lambda a: type(a) is Compiling
        )
    return compiled, time.perf_counter() - clock


class Compiling(NamedTuple):
    """A program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future[jax.stages.Compiled]


def submit_all(submit, exp: Experiment, f: Programs, examples: Examples):
    """Programs, each as what `submit` makes of a name, a function and its arguments.

    These are the arguments after the floats.
    """
    context, key = round_context(0, 0), keys(0)[0]
    start_clients = tuple(
        submit(f"first {cohort.name}", g, key, class_counts(exp, cohort))
        for cohort, g in zip(exp.cohorts, f.start_clients, strict=True)
    )
    start_server = submit("first server", f.start_server, key)
    server, clients = start_server.out, tuple(s.out for s in start_clients)
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
        "train", f.train, exp.train, context, participants, donate_argnums=4
    )
    evaluate = for_each("evaluate", f.evaluate, exp.test)
    asked = for_each("pre-upload", f.pre_upload, exp.train, participants)
    first, ups = (tuple(p.out.up for p in asked), tuple(p.out[1].up for p in train))
    pre_aggregate = f.pre_aggregate and submit(
        "pre-aggregate", f.pre_aggregate, context, server, first
    )
    return Programs(
        start_clients=start_clients,
        start_server=start_server,
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
    examples: Examples,
    limit: int | None,
    wrap: Wrap = program_cache.uncached,
) -> tuple[Experiment, Programs, float, int]:
    """Compiles; halves the clients that run at a time until the estimate fits.

    Args:
      limit: bytes of device memory, None where it is not known.
      wrap: as in compile_all.

    Returns:
      The experiment in the modes that fit, its programs, the seconds it took, and the
      bytes that they need by XLA's account.
    """
    compiled, seconds = compile_all(exp, examples, wrap)
    need = memory.needed(jax.tree.leaves(compiled))
    chunk = max(len(cohort.ids) for cohort in exp.cohorts)
    while limit is not None and need > limit and chunk > 1:
        chunk = -(-chunk // 2)
        mode = execution.in_chunks(chunk)
        exp = exp._replace(cohorts=tuple(c._replace(mode=mode) for c in exp.cohorts))
        again = partial(_renamed, wrap, f" by {chunk}")
        compiled, more = compile_all(exp, examples, again)
        seconds, need = seconds + more, memory.needed(jax.tree.leaves(compiled))
    return exp, compiled, seconds, need


def _renamed(wrap: Wrap, suffix: str, name: str, f: Callable, args: tuple):
    """The same function in another form is another program."""
    return wrap(name + suffix, f, args)
