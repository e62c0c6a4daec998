"""Data on the host: sources by name, partitions over clients, and their description."""

from jaxproto.data.partitions.schemes import divide
from jaxproto.data.sources import load

__all__ = ["divide", "load"]
