"""Device memory that compiled programs need."""

from collections.abc import Iterable

import jax


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
