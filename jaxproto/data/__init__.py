"""Data on the host: sources by name, partitions over clients, and their description."""

from jaxproto.data.datasets import load
from jaxproto.data.partitions.schemes import divide

__all__ = ["divide", "load"]
