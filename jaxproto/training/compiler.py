"""Compilation of all programs of a run before its first round, in threads."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import jax

from jaxproto.core.types import Examples, Tree
from jaxproto.devices.mesh import ONE, OneDevice
from jaxproto.experiment import cohorts
from jaxproto.experiment.build import Experiment
from jaxproto.round import execution
from jaxproto.training import kinds as k
from jaxproto.training import program_cache, programs, sharded_programs, xla_cache
from jaxproto.training.program import Program, stack_trees
from jaxproto.training.program_cache import ProgramWrapper
from jaxproto.training.programs import Programs
from jaxproto.training.shapes import CohortShapes, Shapes


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
        exp, suffix = exp._replace(cores=1), f" of {many}"
    table = sharded_programs.build_programs(exp)
    if many:
        table = jax.tree.map(lambda program: program.over_federations(over), table)

    def lead(tree):
        return stack_trees([tree] * many) if many else tree

    # XLA itself uses several threads, and a compilation of a large network needs 1 GiB
    # or more: two workers, or four on eight cores
    with ThreadPoolExecutor(max(2, min(4, (os.cpu_count() or 1) // 2))) as workers:

        def submit(name, program, *rest):
            args = (lead(exp.floats), *rest)
            one_device = not program.shardings  # as exported programs are
            f = wrap(name + suffix, program, args) if one_device else program
            lowered = jax.jit(f, **program.options).lower(*args)
            compiled = workers.submit(lowered.compile)
            compiled.add_done_callback(lambda _: done(name))
            return PendingProgram(lowered.out_info, compiled)

        pending = submit_programs(submit, exp, table, examples, lead)
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
    submit: Callable[..., PendingProgram],
    exp: Experiment,
    table: Programs,
    examples: Examples,
    lead: Callable[[Tree], Tree] = lambda tree: tree,
) -> Programs:
    """Returns the results of `submit` for every program, in the order of a round.

    Args:
      submit: name, program, arguments after the floats -> `PendingProgram`.
      lead: Adds the axis of federations to trees that they do not share.
    """
    server = Shapes(
        {
            k.KEY.name: lead(programs.keys(0)[0]),
            k.CONTEXT.name: lead(programs.round_context(0, 0)),
            k.EXAMPLES.name: examples,
        }
    )
    cohorts = [CohortShapes(exp, i, server) for i in range(len(exp.cohorts))]

    def one(name: str, program: Program | None, shapes: Shapes = server):
        if program is None:
            return None
        pending = submit(name, program, *(shapes[kind] for kind in program.args))
        shapes.add(program.out, pending.out)
        return pending

    def each(name: str, part):
        if not isinstance(part, tuple):
            return one(name, part)
        names = [f"{name} {cohort.name}" for cohort in exp.cohorts]
        return tuple(map(one, names, part, cohorts))

    return Programs(*map(each, Programs._fields, table))


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
