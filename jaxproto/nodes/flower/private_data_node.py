"""Node that holds private data.

The node describes its data before its first round. Its folder holds the description
(`told.json`) and the schema of the federation (`agreement.json`). The node answers the
other messages as long as its data match the schema.
"""

from collections.abc import MutableMapping, Sequence
from functools import cache
from pathlib import Path

import ml_collections

from jaxproto.config import resolved_data_fields
from jaxproto.data import registry
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.io.owner_only import owner_only_folder
from jaxproto.nodes import data_schema, private_data
from jaxproto.nodes.data_schema import NodeSchema
from jaxproto.nodes.flower.node import Node, Payload, check_client_id
from jaxproto.nodes.private_data import NodeData

DESCRIPTION_FILE = "told.json"


def check_source(config: ml_collections.ConfigDict, id: int, source: str):
    """Raises UserError unless a source is given exactly if `data.name` is nodes."""
    name = config.data.name
    if name == registry.NODES and not source:
        raise UserError(
            f"client {id} names no data, but data.name is nodes; add them to the "
            f'configuration of its node: client={id} data="folder:PATH".'
        )
    if name != registry.NODES and source:
        raise UserError(
            f"client {id} names data, {source}, but data.name is {name}, which has a "
            "part for every client; set data.name=nodes, or leave data out."
        )


def parse_node_data(
    config: ml_collections.ConfigDict, data: Sequence[str] = ()
) -> tuple[str, ...]:
    """Returns the data source of each node, with absolute paths; "" without one.

    Args:
      data: Data sources of all clients, or ().
    """
    num_clients = config.data.clients
    if data and len(data) != num_clients:
        raise UserError(
            f"data of {len(data)} nodes are named, but data.clients is {num_clients}; "
            "name the data of every client, in their order."
        )
    sources = tuple(map(_absolute, data)) or ("",) * num_clients
    for id, source in enumerate(sources):
        check_source(config, id, source)
    return sources


def _absolute(source: str) -> str:
    prefix, colon, path = source.partition(":")
    if not colon or prefix not in ("csv", "folder", "npz"):
        return source
    return f"{prefix}:{Path(path).expanduser().absolute()}"


class PrivateDataNode:
    """Client of a federation that reads private data."""

    def __init__(
        self, config: ml_collections.ConfigDict, id: int, path: Path, source: str
    ):
        """Checks the arguments; reads no data yet."""
        check_source(config, id, source)
        check_client_id(id, config.data.clients)
        self.config, self.id, self.path, self.source = config, id, path, source
        self._node = cache(self._make_node)  # by the text of the schema

    def answer(self, stage: str, message: Payload, memory: MutableMapping) -> Payload:
        """Answers a message of the server.

        Args:
          stage: "describe", "agree" or a stage of `Node.answer`.
          memory: State kept from the first exchange to the second.
        """
        if stage == "describe":
            return {"data": self._describe()}
        if stage == "agree":
            self._accept(message["agreement"])
            return {}
        file = self.path / data_schema.FILE
        if not file.exists():
            raise UserError(
                f"client {self.id} has no agreement yet ({file}); the server sends it "
                "before the next round."
            )
        return self._node(file.read_text()).answer(stage, message, memory)

    def _read(self) -> NodeData:
        return private_data.read(
            resolved_data_fields(self.config), self.id, self.source
        )

    def _describe(self) -> str:
        description = private_data.describe_node(
            self._read(), self.config.data.min_texts
        )
        text = data_schema.to_json(description)
        owner_only_folder(self.path)
        atomic.write(self.path / DESCRIPTION_FILE, text.encode())
        return text

    def _accept(self, text: str):
        """Saves the schema; raises UserError if it lacks the data of this node."""
        description = data_schema.parse_description(
            (self.path / DESCRIPTION_FILE).read_text()
        )
        self._check(data_schema.parse_schema(text), description)
        atomic.write(self.path / data_schema.FILE, text.encode())

    def _check(self, schema: NodeSchema, description: data_schema.NodeDescription):
        if data_schema.add_client(schema, self.id, description) != schema:
            raise UserError(
                f"client {self.id} is not in the agreement; the server sends a new one "
                "before the next round."
            )

    def _make_node(self, text: str) -> Node:
        schema, private = data_schema.parse_schema(text), self._read()
        self._check(
            schema, private_data.describe_node(private, self.config.data.min_texts)
        )
        length = self.config.data.max_len
        data = private_data.node_view(schema, self.id, private, length)
        return Node(self.config, self.id, self.path, data)


def make_node(
    config: ml_collections.ConfigDict, id: int, path: Path, source: str = ""
) -> Node | PrivateDataNode:
    """Returns the client of a node.

    Args:
      path: Folder of the client.
      source: Source of private data; "" takes the part of client `id` of the data set.
    """
    if source or config.data.name == registry.NODES:
        return PrivateDataNode(config, id, path, source)
    return Node(config, id, path)
