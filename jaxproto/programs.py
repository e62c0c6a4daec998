"""The compiled programs of a run: two per cohort, three for the server."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import comm, federation, forms, kernels, memory
from jaxproto.build import Experiment
from jaxproto.types import Client, Pool, Protos, Tree


class State(NamedTuple):
    """All that a run is between two rounds; nothing else exists."""

    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]


class Programs(NamedTuple):
    """Compiled; the round number is an argument, so none is ever compiled again."""

    begin: Callable  # round, server -> Turnout, scalars down per participant
    train: tuple[Callable, ...]  # round, turnout, server, clients, pool, shards
    update: Callable  # round, server, uploads -> server
    evaluate: tuple[Callable, ...]  # server, clients, pool, shards -> {rule: [K]}
    look: Callable  # server -> {name: scalar}


def keys(seed: int):
    """The keys of initialisation, server and rounds."""
    return jax.random.split(jax.random.key(seed), 3)


def init(exp: Experiment, seed: int) -> State:
    """The state before the first round."""
    client_key, server_key, _ = keys(seed)
    start = jax.jit(federation.init_cohort, static_argnums=(0, 1, 2))

    def count(cohort):
        return jnp.asarray(exp.counts.train[list(cohort.ids)], jnp.float32)

    clients = tuple(
        start(exp.method, exp.how, cohort, client_key, count(cohort))
        for cohort in exp.cohorts
    )
    server = jax.jit(partial(exp.method.init_server, exp.cohorts[0].net))(server_key)
    return State(server, clients)


def functions(exp: Experiment, seed: int) -> Programs:
    """The programs of a run before they are compiled."""
    round_key, num = keys(seed)[2], len(exp.partition.train)

    def key(r, stage):
        return jax.random.fold_in(jax.random.fold_in(round_key, r), stage)

    def begin(r, server):
        down = exp.method.broadcast(server)
        return exp.law(key(r, 0), num), comm.scalars(down)

    def train(cohort, form, r, turnout, server, *rest):
        fixed = (exp.method, exp.how, form, cohort, key(r, 1), turnout, server)
        return federation.train_cohort(*fixed, *rest)

    def update(r, server, ups):
        cohorts, method = exp.cohorts, exp.method
        return federation.update_server(method, cohorts, key(r, 2), server, ups)

    def look(server):
        down = exp.method.broadcast(server)
        protos = isinstance(down, Protos)
        return {"smallest_angle": kernels.smallest_angle(down)} if protos else {}

    def for_each(f):
        pairs = zip(exp.cohorts, exp.forms, strict=True)
        return tuple(f(cohort, form) for cohort, form in pairs)

    evaluate = federation.evaluate_cohort
    return Programs(
        begin=begin,
        train=for_each(lambda cohort, form: partial(train, cohort, form)),
        update=update,
        evaluate=for_each(lambda c, form: partial(evaluate, exp.method, form, c)),
        look=look,
    )


def compile_all(exp: Experiment, seed: int, state: State, pool: Pool):
    """Compiles every program before the first round.

    Returns:
      The programs, and the seconds it took.
    """
    clock, r, f = time.perf_counter(), jnp.int32(0), functions(exp, seed)
    server, clients = state
    begin = jax.jit(f.begin).lower(r, server)
    turnout = begin.out_info[0]
    train = [
        jax.jit(g, donate_argnums=3).lower(r, turnout, server, c, pool, shard)
        for g, c, shard in zip(f.train, clients, exp.train, strict=True)
    ]
    evaluate = [
        jax.jit(g).lower(server, c, pool, shard)
        for g, c, shard in zip(f.evaluate, clients, exp.test, strict=True)
    ]
    ups = tuple(lowered.out_info[1].up for lowered in train)
    update = jax.jit(f.update).lower(r, server, ups)
    look = jax.jit(f.look).lower(server)
    with ThreadPoolExecutor(max_workers=4) as workers:
        slowest_first = [*train, *evaluate, update, look, begin]
        *rest, update, look, begin = workers.map(lambda a: a.compile(), slowest_first)
    train, evaluate = tuple(rest[: len(train)]), tuple(rest[len(train) :])
    compiled = Programs(begin, train, update, evaluate, look)
    return compiled, time.perf_counter() - clock


def compile_to_fit(
    exp: Experiment, seed: int, state: State, pool: Pool, limit: int | None
) -> tuple[Experiment, Programs, float, int]:
    """Compiles; halves the clients that run at a time until the estimate fits.

    Args:
      limit: bytes of device memory, None where it is not known.

    Returns:
      The experiment in the forms that fit, its programs, the seconds it took, and the
      bytes that they need by XLA's account.
    """
    compiled, seconds = compile_all(exp, seed, state, pool)
    need = memory.needed(jax.tree.leaves(compiled))
    chunk = max(len(cohort.ids) for cohort in exp.cohorts)
    while limit is not None and need > limit and chunk > 1:
        chunk = -(-chunk // 2)
        exp = exp._replace(forms=(forms.in_chunks(chunk),) * len(exp.cohorts))
        compiled, more = compile_all(exp, seed, state, pool)
        seconds, need = seconds + more, memory.needed(jax.tree.leaves(compiled))
    return exp, compiled, seconds, need
