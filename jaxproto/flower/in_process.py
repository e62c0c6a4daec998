"""A federation in one process, with calls in the place of messages: to try one out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_collections
from rich.console import Console

from jaxproto.errors import UserError
from jaxproto.flower import private_data_node
from jaxproto.flower.node import Answer
from jaxproto.flower.server import REFUSED
from jaxproto.flower.server_run import run_server


class InProcessLink:
    """A link to nodes of this process."""

    def __init__(
        self, config: ml_collections.ConfigDict, path: Path, data: Sequence[str] = ()
    ):
        """Of all clients; below `path` each has its folder.

        Args:
          data: of each client with data of its own.
        """
        self.nodes = {
            i: private_data_node.make_node(config, i, path / str(i), source)
            for i, source in enumerate(private_data_node.parse_node_data(config, data))
        }
        self.memory: dict[int, dict] = {i: {} for i in self.nodes}

    def members(self) -> set[int]:
        """All clients."""
        return set(self.nodes)

    def ask(self, stage: str, told: Mapping[int, Answer]) -> dict[int, Answer]:
        """What clients say."""
        return {i: self._said(stage, i, of) for i, of in told.items()}

    def _said(self, stage: str, i: int, told: Answer) -> Answer:
        try:
            return self.nodes[i].answer(stage, told, self.memory[i])
        except UserError as e:
            return {REFUSED: str(e)}


def run_in_process(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    data: Sequence[str] = (),
    console: Console | None = None,
) -> dict:
    """Runs a federation in this process, without Flower; returns its summary.

    Args:
      config: of the federation.
      workdir: the server's folder; clients have theirs in `nodes/` of it.
      data: of each client with data of its own, such as folder:PATH.
      console: where progress goes.

    Raises:
      UserError: the configuration or the data cannot be used.
    """
    link = InProcessLink(config, Path(workdir) / "nodes", data)
    return run_server(config, workdir, link, console or Console(soft_wrap=True))
