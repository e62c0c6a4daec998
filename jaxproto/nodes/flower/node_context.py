"""Client id and folder of a node, from its Flower context. Imports no JAX."""

from pathlib import Path

from flwr.app import Context

RECORD = "jaxproto"  # record of a message
MEMORY = "jaxproto.first"  # record of a node, kept between two exchanges


def client_of(context: Context) -> int:
    """Returns the client id that a node is configured with; -1 without one."""
    node_config = context.node_config
    return int(node_config.get("client", node_config.get("partition-id", -1)))


def folder_of(home: Path, context: Context) -> Path:
    """Returns the folder in which a node saves its client."""
    return Path(str(context.node_config.get("folder", home / str(client_of(context)))))
