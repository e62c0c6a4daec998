"""Compilation of all programs of a run before its first round, in threads."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import jax

from jaxproto import execution
from jaxproto.experiment import cohorts
from jaxproto.experiment.build import Experiment
from jaxproto.gather import ParticipantRows
from jaxproto.mesh import ONE, OneDevice
from jaxproto.training import (
    batched_programs,
    program_cache,
    programs,
    sharded_programs,
    xla_cache,
)
from jaxproto.training.program_cache import ProgramWrapper
from jaxproto.training.programs import Programs, RoundArguments
from jaxproto.types import Examples, Tree


def compile_all(
    exp: Experiment,
    examples: Examples,
    wrap: ProgramWrapper = program_cache.uncached,
    *args,
    **options,
):
    """Compiles every program before the first round; see `_compile_all`.

    If it fails with cached programs and succeeds without, removes them from the cache.
    """
    try:
        with program_cache.trial() as loaded:
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
    *,
    many: int = 0,
    over: OneDevice = ONE,
):
    """Compiles every program before the first round.

    Args:
      wrap: name, function, arguments -> function that is compiled instead.
      done: Called with the name of each compiled program, by several threads.
      suffix: Suffix of the names that `wrap` gets.
      many: Number of federations; 0 is one, without a leading axis.
      over: Devices among which many federations are divided equally.

    Returns:
      The programs, and the seconds of compilation.
    """
    clock = time.perf_counter()
    if many:
        exp, suffix = batched_programs.without_lanes(exp), f" of {many}"
    functions = sharded_programs.functions(exp)
    if many:
        functions = batched_programs.map_programs(jax.vmap, functions)
    functions = sharded_programs.shard_federations(functions, over)

    def lead(tree):
        return batched_programs.stack_trees([tree] * many) if many else tree

    # XLA itself uses several threads, and a compilation of a large network needs 1 GiB
    # or more: two workers, or four on eight cores
    with ThreadPoolExecutor(max(2, min(4, (os.cpu_count() or 1) // 2))) as workers:

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

        pending = submit_programs(submit, exp, functions, examples, lead)
        compiled = jax.tree.map(
            lambda a: a.program.result(),
            pending,
            is_leaf=lambda a: type(a) is PendingProgram,
        )
    return compiled, time.perf_counter() - clock


class PendingProgram(NamedTuple):
    """Program that a thread compiles."""

    out: Tree  # shapes of its results
    program: Future


def submit_programs(
    submit,
    exp: Experiment,
    f: Programs,
    examples: Examples,
    lead: Callable[[Tree], Tree] = lambda tree: tree,
) -> Programs:
    """Returns the results of `submit` for every program.

    Args:
      submit: name, function, arguments after the floats -> `PendingProgram`.
      lead: Adds the axis of federations to trees that they do not share.
    """
    context, key = lead(programs.round_context(0, 0)), lead(programs.keys(0)[0])

    def of_cohorts(stage, functions, arguments, **options):
        jobs = zip(exp.cohorts, functions, arguments, strict=False)
        return tuple(
            g and submit(f"{stage} {c.name}", g, *a, **options) for c, g, a in jobs
        )

    def shapes(tables, lanes):
        by_cohort = zip(exp.cohorts, tables, lanes, strict=True)
        return [programs.shapes_of_call(exp, *of_cohort) for of_cohort in by_cohort]

    one_lane, lanes = [1 for _ in exp.cohorts], [c.num_lanes for c in exp.cohorts]
    pairs = [programs.client_ids_and_counts(exp, c) for c in exp.cohorts]
    start = [(key, *ids_and_counts) for ids_and_counts in shapes(pairs, one_lane)]
    start_clients = of_cohorts("first", f.start_clients, start)
    start_server = submit("first server", f.start_server, key)
    server, clients = start_server.out, [program.out for program in start_clients]
    broadcast = submit("broadcast", f.broadcast, server)
    participate = submit("participate", f.participate, context, server)
    down, who = broadcast.out.message, participate.out

    whole = list(zip(clients, shapes(exp.train, one_lane), strict=True))
    gather = of_cohorts("gather", f.gather, [(who, *pair) for pair in whole])
    calls = [
        g.out if g else [ParticipantRows(None, *pair)] * c.num_lanes
        for c, g, pair in zip(exp.cohorts, gather, whole, strict=True)
    ]
    inputs = RoundArguments(context, who, down)

    def for_calls(trees):
        by_cohort = zip(trees, calls, strict=False)
        return tuple(tree for tree, of_cohort in by_cohort for _ in of_cohort)

    rows = [(inputs, first.clients, examples, first.shards) for first, *_ in calls]
    pre_upload = of_cohorts("pre-upload", f.pre_upload, rows)
    train = of_cohorts("train", f.train, rows, donate_argnums=2)
    trained = [
        (old, [call.place for call in of_cohort], [program.out[0]] * len(of_cohort))
        for old, of_cohort, program in zip(clients, calls, train, strict=True)
    ]
    pre_uploads = for_calls([program.out[0] for program in pre_upload])
    uploads = for_calls([program.out[1] for program in train])
    tested = of_cohorts("tested", f.tested, zip(clients))
    tests = zip(tested, clients, shapes(exp.test, lanes), strict=True)
    evaluated = [
        (down, t.out[0] if t else every, examples, table) for t, every, table in tests
    ]
    evaluate = of_cohorts("evaluate", f.evaluate, evaluated)
    return Programs(
        start_clients=start_clients,
        start_server=start_server,
        broadcast=broadcast,
        participate=participate,
        gather=gather,
        pre_upload=pre_upload,
        pre_aggregate=f.pre_aggregate
        and submit("pre-aggregate", f.pre_aggregate, context, server, pre_uploads),
        train=train,
        scatter=of_cohorts("scatter", f.scatter, trained, donate_argnums=1),
        update=submit("update", f.update, context, server, uploads),
        tested=tested,
        evaluate=evaluate,
        diagnostics=submit("diagnostics", f.diagnostics, server),
    )


def memory_limit(exp: Experiment) -> float:
    """Returns the bytes of device memory; inf if unknown or if `exp.fit` is false."""
    return (exp.fit and cohorts.device_memory()) or math.inf


def compile_to_fit(
    exp: Experiment,
    examples: Examples,
    limit: float,
    wrap: ProgramWrapper = program_cache.uncached,
    done: Callable[[str], object] = str,
) -> tuple[Experiment, Programs, float, int]:
    """Compiles; halves the clients that train at a time until the programs fit.

    Args:
      limit: Bytes of `memory_limit`; the others are those of `compile_all`.

    Returns:
      The experiment with execution modes that fit, its programs, the seconds of
      compilation, and the bytes that the programs need according to XLA.
    """
    chunk, seconds, suffix = max(len(c.ids) for c in exp.cohorts), 0.0, ""
    while True:
        compiled, duration = compile_all(exp, examples, wrap, done, suffix)
        seconds, need = seconds + duration, required_bytes(jax.tree.leaves(compiled))
        if need <= limit or chunk == 1:
            return exp, compiled, seconds, need
        chunk = -(-chunk // 2)
        mode, suffix = execution.in_chunks(chunk), f" by {chunk}"
        chunked = (dataclasses.replace(c, mode=mode) for c in exp.cohorts)
        exp = exp._replace(cohorts=tuple(chunked))


def required_bytes(compiled: Iterable[jax.stages.Compiled]) -> int:
    """Returns the device bytes of the largest program, according to XLA.

    They are arguments (examples and states among them), results and temporaries, less
    the memory that results share with donated arguments.
    """
    return max(map(_program_bytes, compiled), default=0)


def _program_bytes(program: jax.stages.Compiled) -> int:
    m = program.memory_analysis()
    if m is None:  # the platform has no memory analysis
        return 0
    size = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
    return size - m.alias_size_in_bytes
