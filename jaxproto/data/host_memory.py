"""Bytes that something will take, against what the machine has, before it is made."""

import os
from pathlib import Path

from jaxproto.errors import UserError

LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container on Linux; a number or "max"


def host_memory_bytes() -> float:
    """Bytes of memory that this process can ever have; infinity where nobody says."""
    try:
        machine: float = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows, and unknown names
        machine = float("inf")
    try:
        return min(machine, float(LIMIT.read_text()))
    except (OSError, ValueError):
        return machine


def check_memory(what: str, size: float, way: str):
    """Raises UserError if the machine can never hold so many bytes.

    Args:
      what: the subject of the sentence, in the plural.
      size: bytes.
      way: what to change.
    """
    if size > (there := host_memory_bytes()):
        raise UserError(
            f"{what} need about {size / 2**30:,.1f} GiB of memory, but the machine has "
            f"{there / 2**30:,.1f} GiB; {way}."
        )
