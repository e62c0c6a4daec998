"""Compiles all programs of a run before its first round, in threads."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import execution
from jaxproto.config.build import Experiment
from jaxproto.devices import Layout
from jaxproto.training import (
    compilation,
    memory,
    program_cache,
    programs,
    sharded,
    threads,
)
from jaxproto.training.program_cache import Wrap
from jaxproto.training.programs import Programs
from jaxproto.types import Examples, Tree


@compilation.garbage_later()
def compile_all(
    exp: Experiment,
    examples: Examples,
    wrap: Wrap = program_cache.uncached,
    done: Callable[[str], object] = str,
    many: int = 0,
    over: Layout | None = None,
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> what is compiled in the function's place.
      done: told the name of each program when it is compiled, by several threads.
      many: federations that the programs are of (`programs.of_many`); 0 is one, without
        a leading axis.
      over: devices that share many federations, the same number each.

    Returns:
      The programs, and the seconds it took.
    """
    clock, suffix = time.perf_counter(), ""
    if many:
        exp, suffix = programs.in_one_lane(exp), f" of {many}"
    f = sharded.functions(exp, exp.layout) if exp.layout else programs.functions(exp)
    f = programs.of_many(f) if many else f
    f = sharded.of_federations(f, over) if many and over else f

    def lead(tree):
        return programs.stacked([tree] * many) if many else tree

    with threads.compilers() as workers:

        def submit(name, f, *rest, **options):
            args = (lead(exp.floats), *rest)
            whole = wrap(name + suffix, f, args)
            options |= f.shardings() if isinstance(f, sharded.Spread) else {}
            lowered = jax.jit(whole, **options).lower(*args)
            program = workers.submit(lowered.compile)
            program.add_done_callback(lambda _: done(name))
            return Compiling(lowered.out_info, program)

        made = submit_all(submit, exp, f, examples, lead)
        compiled = jax.tree.map(
            lambda a: a.program.result(), made, is_leaf=lambda a: type(a) is Compiling
        )
    return compiled, time.perf_counter() - clock


class Compiling(NamedTuple):
    """A program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future[jax.stages.Compiled]


def submit_all(
    submit,
    exp: Experiment,
    f: Programs,
    examples: Examples,
    lead: Callable[[Tree], Tree] = lambda tree: tree,
):
    """Programs, each as what `submit` makes of a name, a function and its arguments.

    These are the arguments after the floats. `lead` gives what every federation has of
    its own a leading axis, where there are many.
    """
    context, key = lead(programs.round_context(0, 0)), lead(programs.keys(0)[0])
    start_clients = tuple(
        submit(
            f"first {cohort.name}",
            g,
            key,
            *programs.given(exp, cohort, programs.identities(exp, cohort)),
        )
        for cohort, g in zip(exp.cohorts, f.start_clients, strict=True)
    )
    start_server = submit("first server", f.start_server, key)
    server, clients = start_server.out, tuple(s.out for s in start_clients)
    broadcast = submit("broadcast", f.broadcast, server)
    participate = submit("participate", f.participate, context, server)
    down, participants = broadcast.out.message, participate.out

    present = tuple(
        in_round(submit, exp, f, i, participants, own) for i, own in enumerate(clients)
    )
    train, put_back, reports = [], [], []
    for i, cohort in enumerate(exp.cohorts):
        one = in_lanes if cohort.lanes > 1 else in_place
        begun = context, participants, down
        made = one(submit, exp, f, i, begun, clients[i], examples, present[i])
        train.append(made[0])
        put_back.append(made[1])
        reports += [made[0].out[1]] * cohort.lanes
    evaluate = tuple(
        submit(
            f"evaluate {c.name}",
            g,
            down,
            *[np.int32(0)] * (c.lanes > 1),
            own,
            examples,
            programs.given(exp, c, test),
        )
        for c, g, own, test in zip(
            exp.cohorts, f.evaluate, clients, exp.test, strict=True
        )
    )
    asked = tuple(
        submit(f"pre-upload {c.name}", g, participants, down, own, examples, shards)
        for c, g, (_, _, own, shards) in zip(
            exp.cohorts, f.pre_upload, present, strict=bool(f.pre_upload)
        )
    )
    first = tuple(p.out.uploads for p in asked)
    ups = tuple(p.uploads for p in reports)
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
        train=tuple(train),
        put_back=tuple(put_back),
        update=submit("update", f.update, context, server, ups),
        evaluate=evaluate,
        diagnostics=submit("diagnostics", f.diagnostics, server),
        fetch=tuple(p.fetch for p in present) if f.fetch else (),
    )


class Present(NamedTuple):
    """The clients of a cohort as the programs of a round get them."""

    fetch: Compiling | None  # the program that brings them there
    at: Tree  # what it says of their places
    clients: Tree
    shards: Tree


def in_round(submit, exp: Experiment, f: Programs, i: int, participants, clients):
    """All clients of a cohort; where participants are fetched, these alone."""
    cohort = exp.cohorts[i]
    shards = programs.given(exp, cohort, exp.train[i])
    if not f.fetch or f.fetch[i] is None:
        return Present(None, None, clients, shards)
    fetch = submit(f"fetch {cohort.name}", f.fetch[i], participants, clients, shards)
    return Present(fetch, *fetch.out)


def in_place(submit, exp: Experiment, f: Programs, i: int, begun, clients, examples, p):
    """The program that trains a cohort, and the one that brings clients home, if any.

    Args:
      begun: context, participants, broadcast.
      p: Present.
    """
    name, args = exp.cohorts[i].name, (*begun, p.clients, examples, p.shards)
    train = submit(f"train {name}", f.train[i], *args, donate_argnums=4)
    if p.fetch is None:
        return train, None
    args = clients, p.at, train.out[0]
    return train, submit(f"put {name}", f.put_back[i], *args, donate_argnums=1)


def in_lanes(submit, exp: Experiment, f: Programs, i: int, begun, clients, examples, p):
    """The program that trains any lane of a cohort, and the one that puts it back."""
    cohort = exp.cohorts[i]
    args = *begun, np.int32(0), clients, examples, p.shards
    train = submit(f"train {cohort.name}", f.train[i], *args)
    lanes = [train.out[0]] * cohort.lanes
    put = f.put_back[i]
    return train, submit(f"put {cohort.name}", put, clients, lanes, donate_argnums=1)


def compile_to_fit(
    exp: Experiment,
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
    compiled, seconds = compile_all(exp, examples, wrap, done)
    need = memory.needed(jax.tree.leaves(compiled))
    chunk = max(len(cohort.ids) for cohort in exp.cohorts)
    while limit is not None and need > limit and chunk > 1:
        chunk = -(-chunk // 2)
        mode = execution.in_chunks(chunk)
        exp = exp._replace(cohorts=tuple(c._replace(mode=mode) for c in exp.cohorts))
        again = partial(_renamed, wrap, f" by {chunk}")
        compiled, more = compile_all(exp, examples, again, done)
        seconds, need = seconds + more, memory.needed(jax.tree.leaves(compiled))
    return exp, compiled, seconds, need


def _renamed(wrap: Wrap, suffix: str, name: str, f: Callable, args: tuple):
    """The same function in another form is another program."""
    return wrap(name + suffix, f, args)
