"""Compiles all programs of a run before its first round, in threads."""

import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import jax

from jaxproto import execution
from jaxproto.experiment.build import Experiment
from jaxproto.gather import ParticipantRows
from jaxproto.mesh import ONE, OneDevice
from jaxproto.training import (
    batched_programs,
    device_memory,
    program_cache,
    programs,
    sharded_programs,
    threads,
    xla_cache,
)
from jaxproto.training.program_cache import ProgramWrapper
from jaxproto.training.programs import Programs
from jaxproto.types import Examples, Tree


@xla_cache.gc_paused()
def compile_all(
    exp: Experiment,
    examples: Examples,
    wrap: ProgramWrapper = program_cache.uncached,
    done: Callable[[str], object] = str,
    many: int = 0,
    over: OneDevice = ONE,
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> what is compiled in the function's place.
      done: told the name of each program when it is compiled, by several threads.
      many: federations that the programs are of (`vmap_programs`); 0 is one, without
        a leading axis.
      over: devices that share many federations, the same number each.

    Returns:
      The programs, and the seconds it took.
    """
    clock, suffix = time.perf_counter(), ""
    if many:
        exp, suffix = batched_programs.without_lanes(exp), f" of {many}"
    f = sharded_programs.functions(exp)
    f = batched_programs.vmap_programs(f) if many else f
    f = sharded_programs.shard_federations(f, over)

    def lead(tree):
        return batched_programs.stack_trees([tree] * many) if many else tree

    with threads.compile_pool() as workers:

        def submit(name, f, *rest, **options):
            args = (lead(exp.floats), *rest)
            whole = wrap(name + suffix, f, args)
            options |= (
                f.shardings() if isinstance(f, sharded_programs.ShardMapped) else {}
            )
            lowered = jax.jit(whole, **options).lower(*args)
            program = workers.submit(lowered.compile)
            program.add_done_callback(lambda _: done(name))
            return PendingProgram(lowered.out_info, program)

        pending = submit_programs(submit, exp, f, examples, lead)
        compiled = jax.tree.map(
            lambda a: a.program.result(),
            pending,
            is_leaf=lambda a: type(a) is PendingProgram,
        )
    return compiled, time.perf_counter() - clock


class PendingProgram(NamedTuple):
    """A program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future[jax.stages.Compiled]


def submit_programs(
    submit,
    exp: Experiment,
    f: Programs,
    examples: Examples,
    lead: Callable[[Tree], Tree] = lambda tree: tree,
):
    """Returns programs, each as what `submit` makes of name, function and arguments.

    These are the arguments after the floats; of no function it makes None. `lead` gives
    what every federation has of its own a leading axis, where there are many.
    """
    submit = partial(_if_any, submit)
    context, key = lead(programs.round_context(0, 0)), lead(programs.keys(0)[0])
    start_clients = tuple(
        submit(
            f"first {cohort.name}",
            g,
            key,
            *programs.shapes_of_call(
                exp, cohort, programs.client_ids_and_counts(exp, cohort)
            ),
        )
        for cohort, g in zip(exp.cohorts, f.start_clients, strict=True)
    )
    start_server = submit("first server", f.start_server, key)
    server, clients = start_server.out, tuple(s.out for s in start_clients)
    broadcast = submit("broadcast", f.broadcast, server)
    participate = submit("participate", f.participate, context, server)
    down, who = broadcast.out.message, participate.out

    of_rounds = [
        _round(submit, exp, f, i, (context, who, down, own, examples))
        for i, own in enumerate(clients)
    ]
    first, ups = ([u for r in of_rounds for u in r[way]] for way in ("first", "ups"))
    tested = tuple(
        submit(f"tested {cohort.name}", g, own)
        for cohort, g, own in zip(exp.cohorts, f.tested, clients, strict=True)
    )
    evaluate = tuple(
        submit(
            f"evaluate {cohort.name}",
            f.evaluate[i],
            down,
            tested[i].out[0] if tested[i] else clients[i],
            examples,
            programs.shapes_of_call(exp, cohort, exp.test[i], cohort.num_lanes),
        )
        for i, cohort in enumerate(exp.cohorts)
    )

    def each(name):
        return tuple(r[name] for r in of_rounds)

    return Programs(
        start_clients=start_clients,
        start_server=start_server,
        broadcast=broadcast,
        participate=participate,
        gather=each("gather"),
        pre_upload=each("pre_upload") if f.pre_upload else (),
        pre_aggregate=submit(
            "pre-aggregate", f.pre_aggregate, context, server, tuple(first)
        ),
        train=each("train"),
        scatter=each("scatter"),
        update=submit("update", f.update, context, server, tuple(ups)),
        tested=tested,
        evaluate=evaluate,
        diagnostics=submit("diagnostics", f.diagnostics, server),
    )


def _if_any(submit, name: str, f: Callable | None, *args, **options):
    """Submits a program; returns None where the run has none of this name."""
    return None if f is None else submit(name, f, *args, **options)


def _round(submit, exp: Experiment, f: Programs, i: int, arguments: tuple) -> dict:
    """Returns the programs of a round of one cohort, and the uploads of its calls.

    Args:
      arguments: context, participants, broadcast, clients, examples.
    """
    context, who, down, clients, examples = arguments
    inputs = programs.RoundInputs(context, who, down)
    cohort, pre_upload = exp.cohorts[i], None
    shards = programs.shapes_of_call(exp, cohort, exp.train[i])
    gather = submit(f"gather {cohort.name}", f.gather[i], who, clients, shards)
    rows = (
        gather.out
        if gather
        else [ParticipantRows(None, clients, shards)] * cohort.num_lanes
    )
    mine = rows[0].clients, examples, rows[0].shards
    if f.pre_upload:
        name = f"pre-upload {cohort.name}"
        pre_upload = submit(name, f.pre_upload[i], inputs, *mine)
    name = f"train {cohort.name}"
    train = submit(name, f.train[i], inputs, *mine, donate_argnums=2)
    after, uploads, _ = train.out
    places, trained = [own.place for own in rows], [after] * len(rows)
    name, scatter = f"scatter {cohort.name}", f.scatter[i]
    return {
        "gather": gather,
        "pre_upload": pre_upload,
        "train": train,
        "scatter": submit(name, scatter, clients, places, trained, donate_argnums=1),
        "first": [pre_upload.out[0]] * len(rows) if pre_upload else [],
        "ups": [uploads] * len(rows),
    }


def compile_to_fit(
    exp: Experiment,
    examples: Examples,
    limit: int | None,
    wrap: ProgramWrapper = program_cache.uncached,
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
    need = device_memory.required_bytes(jax.tree.leaves(compiled))
    chunk = max(len(cohort.ids) for cohort in exp.cohorts)
    while limit is not None and need > limit and chunk > 1:
        chunk = -(-chunk // 2)
        mode = execution.in_chunks(chunk)
        cohorts = (dataclasses.replace(c, mode=mode) for c in exp.cohorts)
        exp = exp._replace(cohorts=tuple(cohorts))
        again = partial(_renamed, wrap, f" by {chunk}")
        compiled, more = compile_all(exp, examples, again, done)
        seconds, need = (
            seconds + more,
            device_memory.required_bytes(jax.tree.leaves(compiled)),
        )
    return exp, compiled, seconds, need


def _renamed(wrap: ProgramWrapper, suffix: str, name: str, f: Callable, args: tuple):
    """The same function in another form is another program."""
    return wrap(name + suffix, f, args)
