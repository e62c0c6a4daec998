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
from jaxproto.training import compilation, memory, program_cache, programs, threads
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
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> what is compiled in the function's place.
      done: told the name of each program when it is compiled, by several threads.
      many: federations that the programs are of (`programs.of_many`); 0 is one, without
        a leading axis.

    Returns:
      The programs, and the seconds it took.
    """
    clock, suffix = time.perf_counter(), ""
    if many:
        exp, suffix = programs.in_one_lane(exp), f" of {many}"
    f = programs.functions(exp)
    f = programs.of_many(f) if many else f

    def lead(tree):
        return programs.stacked([tree] * many) if many else tree

    with threads.compilers() as workers:

        def submit(name, f, *rest, **options):
            args = (lead(exp.floats), *rest)
            whole = wrap(name + suffix, f, args)
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
            *programs.on_device(exp, cohort, programs.identities(exp, cohort)),
        )
        for cohort, g in zip(exp.cohorts, f.start_clients, strict=True)
    )
    start_server = submit("first server", f.start_server, key)
    server, clients = start_server.out, tuple(s.out for s in start_clients)
    broadcast = submit("broadcast", f.broadcast, server)
    participate = submit("participate", f.participate, context, server)
    down, participants = broadcast.out.message, participate.out

    def for_each(stage, parts, shards, *args, **options):
        rows = zip(exp.cohorts, parts, clients, shards, strict=bool(parts))
        given = ((c, g, own, programs.on_device(exp, c, s)) for c, g, own, s in rows)
        return tuple(
            submit(f"{stage} {c.name}", g, *args, down, own, examples, s, **options)
            for c, g, own, s in given
        )

    train, put_back, reports = [], [], []
    for i, cohort in enumerate(exp.cohorts):
        one = in_lanes if cohort.lanes > 1 else in_place
        made = one(
            submit, exp, f, i, (context, participants, down), clients[i], examples
        )
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
            programs.on_device(exp, c, test),
        )
        for c, g, own, test in zip(
            exp.cohorts, f.evaluate, clients, exp.test, strict=True
        )
    )
    asked = for_each("pre-upload", f.pre_upload, exp.train, participants)
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
    )


def in_place(submit, exp: Experiment, f: Programs, i: int, given, clients, examples):
    """The program that trains a cohort, and none that puts clients back."""
    cohort = exp.cohorts[i]
    shards = programs.on_device(exp, cohort, exp.train[i])
    args = *given, clients, examples, shards
    return submit(f"train {cohort.name}", f.train[i], *args, donate_argnums=4), None


def in_lanes(submit, exp: Experiment, f: Programs, i: int, given, clients, examples):
    """The program that trains any lane of a cohort, and the one that puts it back."""
    cohort = exp.cohorts[i]
    shards = programs.on_device(exp, cohort, exp.train[i])
    args = *given, np.int32(0), clients, examples, shards
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
