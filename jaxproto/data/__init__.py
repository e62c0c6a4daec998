"""Data on the host: sources by name, partitions over clients, and their description."""

from jaxproto.data.partitions.registry import partition_dataset
from jaxproto.data.registry import load

__all__ = ["load", "partition_dataset"]
