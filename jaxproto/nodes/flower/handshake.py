"""Handshake before the first round of a federation whose nodes hold private data.

The server asks each client to describe its data, merges the descriptions of the clients
that are connected at the start into a schema, and sends it to them. The schema is saved
in the folder of the server. A client that connects later joins if its data fit; if not,
the reason is logged as a fault of round 0 and the client is retried before every round.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import ml_collections

from jaxproto.data.partitions.partition import (
    FederationData,
)
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.nodes import data_schema, private_data
from jaxproto.nodes.data_schema import NodeDescription, NodeSchema
from jaxproto.nodes.flower.accept import REFUSED, accepted_replies
from jaxproto.nodes.flower.node import Payload
from jaxproto.nodes.flower.server import Link, LostMessage


class HandshakeLink:
    """Link to the clients whose data fit the schema.

    Attributes:
      schema: Schema of the federation.
      on_join: Called when a late client has joined the schema.
    """

    schema: NodeSchema

    def __init__(
        self,
        link: Link,
        config: ml_collections.ConfigDict,
        path: Path,
        report_fault: Callable[[LostMessage], None],
    ):
        """Reads the saved schema, or merges one from descriptions and sends it.

        Args:
          path: Folder of the server.
          report_fault: Receives each client that is left out, with the reason.
        """
        self.link, self.data, self.report_fault = link, config.data, report_fault
        self.file = path / data_schema.FILE
        self.on_join: Callable[[], None] = lambda: None
        self._agreed: set[int] = set()
        self._reported: set[tuple[int, str]] = set()
        if self.file.exists():
            self.schema = data_schema.read(self.file)
            return
        descriptions = self._describe(link.members())
        if not descriptions:
            raise UserError(
                "no client has described its data; the reasons are above. Correct "
                "them and start again."
            )
        self.schema = data_schema.merge_descriptions(
            descriptions, self.data.clients, self.data.vocab_size
        )
        self._save()
        self._send_schema(self.schema.clients)

    def server_data(self) -> FederationData:
        """Returns the data that the server builds from the schema."""
        return private_data.server_view(self.schema, self.data.max_len)

    def members(self) -> set[int]:
        """Returns the connected clients whose data fit; sends them the schema."""
        connected = self.link.members()
        descriptions = self._describe(connected - self._agreed)
        before, fitting = self.schema, []
        for i in sorted(descriptions):
            try:
                self.schema = data_schema.add_client(self.schema, i, descriptions[i])
                fitting.append(i)
            except UserError as e:
                self._report(i, str(e))
        if self.schema != before:
            self._save()
            self.on_join()
        self._send_schema(fitting)
        return connected & self._agreed

    def ask(self, stage: str, requests: Mapping[int, Payload]) -> dict[int, Payload]:
        """Returns the replies of clients; one that refuses describes its data again."""
        replies = self.link.ask(stage, requests)
        self._agreed -= {i for i in replies if REFUSED in replies[i]}
        return replies

    def _describe(self, clients: Iterable[int]) -> dict[int, NodeDescription]:
        """Returns the descriptions of the data of clients, by client id."""
        return accepted_replies(
            self.link.ask("describe", {i: {} for i in sorted(clients)}),
            lambda i, reply: data_schema.parse_description(reply["data"]),
            self._report,
        )

    def _send_schema(self, clients: Iterable[int]):
        views = {i: data_schema.schema_for(self.schema, i) for i in clients}
        requests = {i: {"agreement": data_schema.to_json(v)} for i, v in views.items()}
        replies = self.link.ask("agree", requests)
        agreed = accepted_replies(replies, lambda i, reply: reply, self._report)
        self._agreed |= agreed.keys()

    def _report(self, id: int, why: str):
        """Reports each reason of a client once."""
        if (id, why) not in self._reported:
            self._reported.add((id, why))
            self.report_fault(LostMessage(0, id, "agree", why))

    def _save(self):
        atomic.write(self.file, data_schema.to_json(self.schema).encode())


def describe_schema(schema: NodeSchema) -> list[str]:
    """Returns the lines that describe a schema to the user."""
    kind = schema.kind if not schema.shape else f"{schema.kind} {list(schema.shape)}"
    lines = [f"inputs: {kind}", f"labels: {', '.join(schema.labels)}"]
    if schema.tokens:
        lines.append(f"vocabulary: {len(schema.tokens):,} tokens")
    for i, sizes in sorted({**schema.clients, **schema.late}.items()):
        labels = ", ".join(sizes.labels)
        counts = f"{sizes.train:,} to train, {sizes.test:,} to test"
        lines.append(f"client {i}: {counts}; {labels}")
    absent = set(range(schema.number)) - {*schema.clients, *schema.late}
    return [*lines, *(f"client {i}: not there yet" for i in sorted(absent))]
