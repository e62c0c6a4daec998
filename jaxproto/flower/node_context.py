"""Reads who a node is from the context that Flower passes to it. Imports no JAX."""

from pathlib import Path

from flwr.app import Context

RECORD = "jaxproto"  # of a message
MEMORY = "jaxproto.first"  # of a node, from the first exchange to the second


def client_of(context: Context) -> int:
    """Which client a node says it is; -1 where it does not."""
    own = context.node_config
    return int(own.get("client", own.get("partition-id", -1)))


def folder_of(home: Path, context: Context) -> Path:
    """Where the client of a node keeps its networks."""
    return Path(str(context.node_config.get("folder", home / str(client_of(context)))))
