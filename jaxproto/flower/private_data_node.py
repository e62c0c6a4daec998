"""A node with data of its own, and nothing else.

It tells what its data are like before its first round, and keeps in its folder what it
told (`told.json`) and what all have agreed on (`agreement.json`). Every other message
is answered as in a simulation, if its data are still those of the agreement.
"""

from collections.abc import MutableMapping, Sequence
from functools import cache
from pathlib import Path

import ml_collections

from jaxproto.config import resolved_data_fields
from jaxproto.data import node_schema, nodes, registry
from jaxproto.data.node_schema import NodeSchema
from jaxproto.data.nodes import NodeData
from jaxproto.errors import UserError
from jaxproto.experiment import data as dividing
from jaxproto.flower.node import Answer, Node
from jaxproto.io import atomic

SCHEMA_FILE = "told.json"


def check_source(config: ml_collections.ConfigDict, id: int, source: str):
    """Raises UserError unless a node names data where the federation wants it to."""
    name = config.data.name
    if name == registry.NODES and not source:
        raise UserError(
            f"client {id} names no data, but data.name is nodes; add them to the "
            f'configuration of its node: client={id} data="folder:PATH".'
        )
    if name != registry.NODES and source:
        raise UserError(
            f"client {id} names data, {source}, but data.name is {name}, of which it "
            "would take its part; set data.name=nodes, or leave data out."
        )


def parse_node_data(
    config: ml_collections.ConfigDict, data: Sequence[str] = ()
) -> tuple[str, ...]:
    """The data of each client's node, "" without own; paths from this folder on.

    Args:
      data: as they are named, of every client or of none.

    Raises:
      UserError: they are not what the configuration asks for.
    """
    number = config.data.clients
    if data and len(data) != number:
        raise UserError(
            f"data of {len(data)} nodes are named, but data.clients is {number}; name "
            "those of each, in the order of clients."
        )
    each = tuple(map(_absolute, data)) or ("",) * number
    for id, source in enumerate(each):
        check_source(config, id, source)
    return each


def _absolute(source: str) -> str:
    prefix, colon, path = source.partition(":")
    if not colon or prefix not in ("csv", "folder", "npz"):
        return source
    return f"{prefix}:{Path(path).expanduser().absolute()}"


class PrivateDataNode:
    """One client of a federation, and its data."""

    def __init__(
        self, config: ml_collections.ConfigDict, id: int, path: Path, source: str
    ):
        """Reads nothing yet; see `Node` and `nodes.read`.

        Raises:
          UserError: there is no such client, or it names no data.
        """
        check_source(config, id, source)
        if not 0 <= id < config.data.clients:
            raise UserError(
                f"client={id} in the configuration of the node: the federation has "
                f"clients 0 to {config.data.clients - 1}."
            )
        self.config, self.id, self.path, self.source = config, id, path, source
        self._node = cache(self._made)  # of an agreement

    def answer(self, stage: str, told: Answer, memory: MutableMapping) -> Answer:
        """What the client says to a message of the server.

        Args:
          stage: "describe", "agree" or one of `Node.answer`.
          told, memory: as in `Node.answer`.

        Raises:
          UserError: its data cannot be read, or do not fit the agreement.
        """
        if stage == "describe":
            return {"data": self._described()}
        if stage == "agree":
            self._agrees(told["agreement"])
            return {}
        file = self.path / node_schema.FILE
        if not file.exists():
            raise UserError(
                f"client {self.id} knows no agreement ({file}); the server tells it "
                "before the next round."
            )
        return self._node(file.read_text()).answer(stage, told, memory)

    def _read(self) -> NodeData:
        return nodes.read(resolved_data_fields(self.config), self.id, self.source)

    def _described(self) -> str:
        own = nodes.describe_node(self._read(), self.config.data.min_texts)
        text = node_schema.to_json(own)
        self.path.mkdir(parents=True, exist_ok=True)
        atomic.write(self.path / SCHEMA_FILE, text.encode())
        return text

    def _agrees(self, told: str):
        """Keeps the agreement, if it has what the node has told."""
        own = node_schema.parse_description((self.path / SCHEMA_FILE).read_text())
        self._check(node_schema.parse_schema(told), own)
        atomic.write(self.path / node_schema.FILE, told.encode())

    def _check(self, made: NodeSchema, own: node_schema.NodeDescription):
        if node_schema.add_client(made, self.id, own) != made:
            raise UserError(
                f"client {self.id} is not in the agreement; the server tells it "
                "before the next round."
            )

    def _made(self, told: str) -> Node:
        made, own = node_schema.parse_schema(told), self._read()
        self._check(made, nodes.describe_node(own, self.config.data.min_texts))
        given = dividing.node_data(made, self.id, own, self.config.data)
        return Node(self.config, self.id, self.path, given)


def make_node(
    config: ml_collections.ConfigDict, id: int, path: Path, source: str = ""
) -> Node | PrivateDataNode:
    """The client of a node.

    Args:
      source: of its own data; "" for its part of those of the configuration.
    """
    if source or config.data.name == registry.NODES:
        return PrivateDataNode(config, id, path, source)
    return Node(config, id, path)
