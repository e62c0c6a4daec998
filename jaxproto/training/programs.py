"""The compiled programs of a run: two per cohort, three for the server.

A method with a first exchange has one more of each.
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

from jaxproto import execution, federation, kernels, participation, transforms, wire
from jaxproto.config.build import Experiment
from jaxproto.method import no_probe
from jaxproto.participation import Turnout
from jaxproto.training import compilation, memory, program_cache
from jaxproto.training.program_cache import Known
from jaxproto.types import Array, Client, Pool, Protos, Tree


class State(NamedTuple):
    """All that a run is between two rounds; nothing else exists."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]
    traffic: np.ndarray  # [2] int64 bytes so far, up and down
    watched: Tree = ()  # {name: [eval_every]} what `look` said of rounds, or nothing


class At(NamedTuple):
    """A round. An argument of programs, so that all rounds and seeds share them."""

    r: Array  # [] its number, from 0
    key: Array  # of all that is random in it


class Begin(NamedTuple):
    """What is known when a round begins."""

    turnout: Turnout
    sent: Array  # [] scalars down to each participant
    bytes: Array  # [] the same in bytes on the wire


class Programs(NamedTuple):
    """Compiled, once for all rounds and seeds."""

    begin: Callable  # At, server -> Begin
    probe: tuple[Callable, ...]  # turnout, server, clients, pool, shards -> Probe
    answer: Callable | None  # At, server, probes -> server, scalars, bytes
    train: tuple[Callable, ...]  # At, turnout, server, clients, pool, shards
    update: Callable  # At, server, uploads -> server
    evaluate: tuple[Callable, ...]  # server, clients, pool, shards -> {rule: [K]}
    look: Callable  # server -> {name: scalar}, logged every round


def keys(seed: int):
    """The keys of initialisation, server and rounds."""
    return jax.random.split(jax.random.key(seed), 3)


def at(seed: int, r: int) -> At:
    """Round `r` of the run with this seed."""
    return At(jnp.int32(r), jax.random.fold_in(keys(seed)[2], r))


@compilation.garbage_later()
def init(exp: Experiment, seed: int, known: Known = program_cache.anew) -> State:
    """The state before the first round; `known` as in compile_all."""
    client_key, server_key, _ = keys(seed)
    one = partial(federation.init_cohort, exp.method, exp.how)
    with compilers() as workers:

        def start(name, f, *args):
            lowered = jax.jit(known(name, f, args)).lower(*args)
            return workers.submit(lambda: lowered.compile()(*args))

        def cohort_start(cohort):
            count = jnp.asarray(exp.counts.train[list(cohort.ids)], jnp.float32)
            name = f"first {cohort.name}"
            return start(name, partial(one, cohort), client_key, count)

        clients = [cohort_start(cohort) for cohort in exp.cohorts]
        net = exp.cohorts[0].net
        first = partial(exp.method.init_server, net)
        server = start("first server", first, server_key).result()
        clients = tuple(c.result() for c in clients)
    return State(server, clients, np.zeros(2, np.int64))


def shapes(exp: Experiment, seed: int) -> State:
    """As `init`, of `jax.ShapeDtypeStruct`; nothing is compiled."""
    client_key, server_key, _ = keys(seed)
    one = partial(federation.init_cohort, exp.method, exp.how)

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

    def key(at, stage):
        return jax.random.fold_in(at.key, stage)

    method, cohorts, formats, spec = exp.method, exp.cohorts, exp.formats, exp.spec

    def begin(at, server):
        down = method.broadcast(server)
        bytes_down = wire.size(wire.pack(down, formats.down))
        law = participation.with_dropouts(method.invite(exp.law, server), exp.dropout)
        return Begin(law(key(at, 0), num, at.r), wire.scalars(down), bytes_down)

    def train(cohort, form, at, turnout, server, *rest):
        fixed = (method, exp.how.at(at.r), form, cohort, key(at, 1), turnout, server)
        return federation.train_cohort(*fixed, *rest, formats)

    def update(at, server, ups):
        return federation.update_server(method, cohorts, key(at, 2), server, ups)

    def probe(cohort, form, turnout, server, *rest):
        fixed = (method, form, cohort, turnout, server)
        return federation.probe_cohort(*fixed, *rest, formats)

    def answer(at, server, probes):
        fixed = (method, cohorts, key(at, 3))
        server = federation.answer_server(*fixed, server, probes)
        down = method.broadcast(server)
        return server, wire.scalars(down), wire.size(wire.pack(down, formats.down))

    def look(server):
        down = method.broadcast(server)
        whole = spec.feat_dim  # angles of compressed prototypes would mean nothing
        protos = isinstance(down, Protos) and down.mean.shape[-1] == whole
        names = ("smallest_angle", "mean_angle") if protos else ()
        between = {name: getattr(kernels, name)(down) for name in names}
        return {**between, **transforms.watched(server)}

    def for_each(f):
        pairs = zip(exp.cohorts, exp.forms, strict=True)
        return tuple(f(cohort, form) for cohort, form in pairs)

    def evaluate(cohort, form, *rest):
        return federation.evaluate_cohort(method, form, cohort, *rest, formats)

    twice = method.probe is not no_probe
    return Programs(
        begin=begin,
        probe=for_each(lambda c, form: partial(probe, c, form)) if twice else (),
        answer=answer if twice else None,
        train=for_each(lambda cohort, form: partial(train, cohort, form)),
        update=update,
        evaluate=for_each(lambda c, form: partial(evaluate, c, form)),
        look=look,
    )


def compilers() -> ThreadPoolExecutor:
    """Two threads compile what is lowered while more is traced; four on eight cores.

    No more: XLA itself uses several, and every program that is being compiled holds a
    GiB or more if its network is large.
    """
    return ThreadPoolExecutor(max(2, min(4, (os.cpu_count() or 1) // 2)))


@compilation.garbage_later()
def compile_all(
    exp: Experiment, state: State, pool: Pool, known: Known = program_cache.anew
):
    """Compiles every program before the first round.

    Args:
      known: name, function, arguments -> what is compiled in the function's place.

    Returns:
      The programs, and the seconds it took.
    """
    clock = time.perf_counter()
    with compilers() as workers:

        def submit(name, f, *args, **how):
            lowered = jax.jit(known(name, f, args), **how).lower(*args)
            return Compiling(lowered.out_info, workers.submit(lowered.compile))

        made = submit_all(submit, exp, functions(exp), state, pool)
        compiled = jax.tree.map(
            lambda a: a.program.result(), made, is_leaf=lambda a: type(a) is Compiling
        )
    return compiled, time.perf_counter() - clock


class Compiling(NamedTuple):
    """A program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future[jax.stages.Compiled]


def submit_all(submit, exp: Experiment, f: Programs, state: State, pool: Pool):
    """Programs, each as what `submit` makes of a name, a function and its arguments."""
    first, server, clients = at(0, 0), state.server, state.clients
    begin = submit("begin", f.begin, first, server)
    turnout = begin.out.turnout

    def for_each(stage, programs, shards, *args, **how):
        rows = zip(exp.cohorts, programs, clients, shards, strict=bool(programs))
        return tuple(
            submit(f"{stage} {cohort.name}", g, *args, server, c, pool, shard, **how)
            for cohort, g, c, shard in rows
        )

    train = for_each("train", f.train, exp.train, first, turnout, donate_argnums=3)
    evaluate = for_each("evaluate", f.evaluate, exp.test)
    probe = for_each("probe", f.probe, exp.train, turnout)
    asked, trained = tuple(p.out.up for p in probe), tuple(p.out[1].up for p in train)
    return Programs(
        begin=begin,
        probe=probe,
        answer=f.answer and submit("answer", f.answer, first, server, asked),
        train=train,
        update=submit("update", f.update, first, server, trained),
        evaluate=evaluate,
        look=submit("look", f.look, server),
    )


def compile_to_fit(
    exp: Experiment,
    state: State,
    pool: Pool,
    limit: int | None,
    known: Known = program_cache.anew,
) -> tuple[Experiment, Programs, float, int]:
    """Compiles; halves the clients that run at a time until the estimate fits.

    Args:
      limit: bytes of device memory, None where it is not known.
      known: as in compile_all.

    Returns:
      The experiment in the forms that fit, its programs, the seconds it took, and the
      bytes that they need by XLA's account.
    """
    compiled, seconds = compile_all(exp, state, pool, known)
    need = memory.needed(jax.tree.leaves(compiled))
    chunk = max(len(cohort.ids) for cohort in exp.cohorts)
    while limit is not None and need > limit and chunk > 1:
        chunk = -(-chunk // 2)
        exp = exp._replace(forms=(execution.in_chunks(chunk),) * len(exp.cohorts))
        again = partial(_renamed, known, f" by {chunk}")
        compiled, more = compile_all(exp, state, pool, again)
        seconds, need = seconds + more, memory.needed(jax.tree.leaves(compiled))
    return exp, compiled, seconds, need


def _renamed(known: Known, suffix: str, name: str, f: Callable, args: tuple):
    """The same function in another form is another program."""
    return known(name + suffix, f, args)
