"""The compiled programs of a run: two per cohort and two for the server, no more."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import comm, federation, kernels
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


def compile_all(exp: Experiment, seed: int, state: State, pool: Pool):
    """Compiles every program before the first round.

    Returns:
      The programs, and the seconds it took.
    """
    start, round_key, num = time.perf_counter(), keys(seed)[2], len(exp.partition.train)
    r = jnp.int32(0)

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

    turnout = jax.eval_shape(begin, r, state.server)[0]
    lowered = [jax.jit(begin).lower(r, state.server), jax.jit(look).lower(state.server)]
    ups = []
    for cohort, form, clients, shard in zip(
        exp.cohorts, exp.forms, state.clients, exp.train, strict=True
    ):
        arguments = (r, turnout, state.server, clients, pool, shard)
        jitted = jax.jit(partial(train, cohort, form), donate_argnums=3).lower(
            *arguments
        )
        ups.append(jitted.out_info[1].up)
        lowered.append(jitted)
    lowered.append(jax.jit(update).lower(r, state.server, tuple(ups)))
    for cohort, clients, shard in zip(
        exp.cohorts, state.clients, exp.test, strict=True
    ):
        evaluate = partial(federation.evaluate_cohort, exp.method, exp.over, cohort)
        arguments = (state.server, clients, pool, shard)
        lowered.append(jax.jit(evaluate).lower(*arguments))
    with ThreadPoolExecutor(max_workers=4) as workers:
        begin, look, *rest = workers.map(lambda a: a.compile(), lowered)
    n = len(exp.cohorts)
    programs = Programs(begin, tuple(rest[:n]), rest[n], tuple(rest[n + 1 :]), look)
    return programs, time.perf_counter() - start
