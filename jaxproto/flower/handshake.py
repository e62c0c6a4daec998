"""The exchange before the first round, where nodes have data of their own.

The server asks each client that comes what its data are like, makes the agreement of
those that are there at the start, and tells it to each of them. Its folder keeps the
agreement, which a server that starts again has. Who comes later is asked, too; whoever
does not fit is left out, with the reason as a fault of round 0, and asked again before
the next round.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import ml_collections

from jaxproto.data import node_schema
from jaxproto.data.node_schema import NodeDescription, NodeSchema
from jaxproto.errors import UserError
from jaxproto.experiment import data
from jaxproto.experiment.data import FederationData
from jaxproto.flower.node import Answer
from jaxproto.flower.server import REFUSED, Link, LostMessage
from jaxproto.io import atomic


class HandshakeLink:
    """A link to the clients that have agreed.

    Attributes:
      made: the agreement.
      grown: called when a client that came late has joined it.
    """

    made: NodeSchema

    def __init__(
        self,
        link: Link,
        config: ml_collections.ConfigDict,
        path: Path,
        fault: Callable[[LostMessage], None],
    ):
        """Makes the agreement, unless the folder has one.

        Args:
          link: to all clients.
          path: the server's folder.
          fault: is told who is left out.

        Raises:
          UserError: the data of those that are there do not go together.
        """
        self.link, self.data, self.fault = link, config.data, fault
        self.file = path / node_schema.FILE
        self.grown: Callable[[], None] = lambda: None
        self._agreed: set[int] = set()
        self._noted: set[tuple[int, str]] = set()
        if self.file.exists():
            self.made = node_schema.read(self.file)
            return
        told = self._described(link.members())
        if not told:
            raise UserError(
                "no client has said what its data are like; the reasons are above. "
                "Mend them and start again."
            )
        number, vocab_size = self.data.clients, self.data.vocab_size
        self._keep(node_schema.merge_descriptions(told, number, vocab_size))
        self._tell(told)

    def given(self) -> FederationData:
        """The data as the server knows them."""
        return data.server_data(self.made, self.data)

    def members(self) -> set[int]:
        """The clients that are there now and have agreed."""
        there = self.link.members()
        told, fits, before = self._described(there - self._agreed), [], self.made
        for i in sorted(told):
            try:
                self.made = node_schema.add_client(self.made, i, told[i])
                fits.append(i)
            except UserError as e:
                self._note(i, str(e))
        if self.made != before:
            self._keep(self.made)
            self.grown()
        self._tell(fits)
        return there & self._agreed

    def ask(self, stage: str, told: Mapping[int, Answer]) -> dict[int, Answer]:
        """What clients say; who refuses is asked for its data again."""
        said = self.link.ask(stage, told)
        self._agreed -= {i for i in said if REFUSED in said[i]}
        return said

    def _described(self, who: Iterable[int]) -> dict[int, NodeDescription]:
        """What clients tell of their data."""
        found = {}
        for i, said in self._answers("describe", {i: {} for i in sorted(who)}).items():
            try:
                found[i] = node_schema.parse_description(said["data"])
            except UserError as e:
                self._note(i, str(e))
        return found

    def _tell(self, who: Iterable[int]):
        told: dict[int, Answer] = {
            i: {"agreement": node_schema.to_json(node_schema.schema_for(self.made, i))}
            for i in who
        }
        self._agreed |= {*self._answers("agree", told)}

    def _answers(self, stage: str, told: Mapping[int, Answer]) -> dict[int, Answer]:
        said = self.link.ask(stage, told) if told else {}
        for i in sorted(said):
            if REFUSED in said[i]:
                self._note(i, str(said[i][REFUSED]))
        return {i: said[i] for i in sorted(said) if REFUSED not in said[i]}

    def _note(self, id: int, why: str):
        """A fault, once for each reason."""
        if (id, why) not in self._noted:
            self._noted.add((id, why))
            self.fault(LostMessage(0, id, "agree", why))

    def _keep(self, made: NodeSchema):
        self.made = made
        atomic.write(self.file, node_schema.to_json(made).encode())


def describe_schema(made: NodeSchema) -> list[str]:
    """The agreement, in words."""
    kind = made.kind if not made.shape else f"{made.kind} {list(made.shape)}"
    told = [f"inputs: {kind}", f"labels: {', '.join(made.labels)}"]
    if made.tokens:
        told.append(f"vocabulary: {len(made.tokens):,} tokens")
    for i, of in sorted({**made.clients, **made.late}.items()):
        labels = ", ".join(of.labels)
        told.append(f"client {i}: {of.train:,} to train, {of.test:,} to test; {labels}")
    absent = set(range(made.number)) - {*made.clients, *made.late}
    return [*told, *(f"client {i}: not there yet" for i in sorted(absent))]
