"""Bytes that a run will need, known before its first step."""

from collections.abc import Iterable

import jax


def required_bytes(compiled: Iterable[jax.stages.Compiled]) -> int:
    """Bytes of the device that the hungriest program takes, by XLA's own account.

    Arguments (pool and states among them), results and temporaries, less what results
    share with donated arguments.
    """
    return max(map(_of, compiled), default=0)


def _of(program: jax.stages.Compiled) -> int:
    m = program.memory_analysis()
    if m is None:  # of a platform that keeps no such account
        return 0
    held = m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes
    return held + m.temp_size_in_bytes


def available_bytes(device: jax.Device) -> int | None:
    """Bytes of the device's memory that JAX may use; None where unknown (CPU)."""
    return (device.memory_stats() or {}).get("bytes_limit")
