"""Data sets by name, partitions over clients, and their description; on the host."""

from jaxproto.data.partitions.registry import partition_dataset
from jaxproto.data.registry import load
