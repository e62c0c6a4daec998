"""Compilation of all programs of a run before its first round, in threads."""

import dataclasses
import time
from collections.abc import Callable, Iterable
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
    program_cache,
    program_trial,
    programs,
    sharded_programs,
    threads,
    xla_cache,
)
from jaxproto.training.program_cache import ProgramWrapper
from jaxproto.training.programs import Programs
from jaxproto.types import Examples, Tree


def compile_all(
    exp: Experiment,
    examples: Examples,
    wrap: ProgramWrapper = program_cache.uncached,
    *args,
    **options,
):
    """Compiles every program before the first round; see `_compile_all`.

    If that fails with programs of a cache and succeeds without, these are removed.
    """
    try:
        with program_trial.trial() as loaded:
            return _compile_all(exp, examples, wrap, *args, **options)
    except Exception as e:
        if not loaded:
            raise
        uncached = program_cache.uncached
        result = _compile_all(exp, examples, uncached, *args, **options)
        for file in loaded:
            program_cache.discard(file, e)
        return result


@xla_cache.gc_paused()
def _compile_all(
    exp: Experiment,
    examples: Examples,
    wrap: ProgramWrapper,
    done: Callable[[str], object] = str,
    suffix: str = "",
    many: int = 0,
    over: OneDevice = ONE,
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> function that is compiled instead.
      done: Called with the name of each compiled program, by several threads.
      suffix: Of the names that `wrap` gets.
      many: Number of federations (`vmap_programs`); 0 is one, without a leading axis.
      over: Devices among which many federations are divided equally.

    Returns:
      The programs, and the seconds of compilation.
    """
    clock = time.perf_counter()
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
            if isinstance(f, sharded_programs.ShardMapped):
                options |= f.shardings()
            else:  # exported programs are of one device
                f = wrap(name + suffix, f, args)
            lowered = jax.jit(f, **options).lower(*args)
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
    """Program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future[jax.stages.Compiled]


def submit_programs(
    submit,
    exp: Experiment,
    f: Programs,
    examples: Examples,
    lead: Callable[[Tree], Tree] = lambda tree: tree,
):
    """Returns the results of `submit` for every program, None for no function.

    Args:
      submit: name, function, arguments after the floats -> `PendingProgram`.
      lead: Adds the axis of federations to what they do not share.
    """
    submit = partial(_if_any, submit)
    context, key = lead(programs.round_context(0, 0)), lead(programs.keys(0)[0])

    def start(cohort, g):
        clients = programs.client_ids_and_counts(exp, cohort)
        shapes = programs.shapes_of_call(exp, cohort, clients)
        return submit(f"first {cohort.name}", g, key, *shapes)

    start_clients = tuple(map(start, exp.cohorts, f.start_clients))
    start_server = submit("first server", f.start_server, key)
    server, clients = start_server.out, tuple(s.out for s in start_clients)
    broadcast = submit("broadcast", f.broadcast, server)
    participate = submit("participate", f.participate, context, server)
    down, who = broadcast.out.message, participate.out

    cohort_rounds = [
        _round(submit, exp, f, i, (context, who, down, rows, examples))
        for i, rows in enumerate(clients)
    ]
    first, ups = (
        [u for r in cohort_rounds for u in r[way]] for way in ("first", "ups")
    )
    tested = tuple(
        submit(f"tested {cohort.name}", g, rows)
        for cohort, g, rows in zip(exp.cohorts, f.tested, clients, strict=True)
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
        return tuple(r[name] for r in cohort_rounds)

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
    """Submits a program; returns None if there is no function."""
    return None if f is None else submit(name, f, *args, **options)


def _round(submit, exp: Experiment, f: Programs, i: int, arguments: tuple) -> dict:
    """Returns the programs of a round of one cohort, and the shapes of its uploads.

    Args:
      i: Index of the cohort.
      arguments: Context, participants, broadcast, clients and examples.
    """
    context, who, down, clients, examples = arguments
    inputs = programs.RoundArguments(context, who, down)
    cohort, pre_upload = exp.cohorts[i], None
    shards = programs.shapes_of_call(exp, cohort, exp.train[i])
    gather = submit(f"gather {cohort.name}", f.gather[i], who, clients, shards)
    rows = (
        gather.out
        if gather
        else [ParticipantRows(None, clients, shards)] * cohort.num_lanes
    )
    call = rows[0].clients, examples, rows[0].shards
    if f.pre_upload:
        name = f"pre-upload {cohort.name}"
        pre_upload = submit(name, f.pre_upload[i], inputs, *call)
    name = f"train {cohort.name}"
    train = submit(name, f.train[i], inputs, *call, donate_argnums=2)
    after, uploads, _ = train.out
    places, trained = [row.place for row in rows], [after] * len(rows)
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
      limit: Bytes of device memory; None if unknown.
      wrap: See `compile_all`.
      done: See `compile_all`.

    Returns:
      The experiment with execution modes that fit, its programs, the seconds of
      compilation, and the bytes that the programs need according to XLA.
    """
    chunk, seconds, suffix = max(len(c.ids) for c in exp.cohorts), 0.0, ""
    while True:
        compiled, more = compile_all(exp, examples, wrap, done, suffix)
        seconds, need = seconds + more, required_bytes(jax.tree.leaves(compiled))
        if limit is None or need <= limit or chunk == 1:
            return exp, compiled, seconds, need
        chunk = -(-chunk // 2)
        mode, suffix = execution.in_chunks(chunk), f" by {chunk}"
        cohorts = (dataclasses.replace(c, mode=mode) for c in exp.cohorts)
        exp = exp._replace(cohorts=tuple(cohorts))


def required_bytes(compiled: Iterable[jax.stages.Compiled]) -> int:
    """Returns the device bytes of the largest program, according to XLA.

    They are arguments (examples and states among them), results and temporaries, less
    what results share with donated arguments.
    """
    return max(map(_program_bytes, compiled), default=0)


def _program_bytes(program: jax.stages.Compiled) -> int:
    m = program.memory_analysis()
    if m is None:  # the platform has no memory analysis
        return 0
    size = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
    return size - m.alias_size_in_bytes
