"""Data on the host: sources by name, partitions over clients, and their description."""

from jaxproto.data.partitions.registry import divide
from jaxproto.data.registry import load

__all__ = ["divide", "load"]
