"""Check that arrays fit into memory, before they are made."""

import os
from pathlib import Path

from jaxproto.errors import UserError

LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container on Linux; a number or "max"


def host_memory_bytes() -> float:
    """Returns the bytes of memory of the machine or container; infinity if unknown."""
    try:
        machine: float = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows, and unknown names
        machine = float("inf")
    try:
        return min(machine, float(LIMIT.read_text()))
    except (OSError, ValueError):
        return machine


def check_memory(what: str, size: float, way: str):
    """Raises UserError if the memory is smaller than `size` bytes.

    Args:
      what: subject of the message, in the plural.
      way: advice on what to change.
    """
    if size > (available := host_memory_bytes()):
        raise UserError(
            f"{what} need about {size / 2**30:,.1f} GiB of memory, but the machine has "
            f"{available / 2**30:,.1f} GiB; {way}."
        )
