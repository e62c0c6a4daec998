"""Federation on nodes of this process, with calls in place of messages."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_collections
from rich.console import Console

from jaxproto.errors import UserError
from jaxproto.features.privacy.guarantee import rehearsal
from jaxproto.nodes.flower.accept import REFUSED
from jaxproto.nodes.flower.node import Payload
from jaxproto.nodes.flower.private_data_node import make_node, parse_node_data
from jaxproto.nodes.flower.server_run import run_server
from jaxproto.summary.progress_lines import make_console


class InProcessLink:
    """Link to nodes of this process."""

    def __init__(
        self, config: ml_collections.ConfigDict, path: Path, data: Sequence[str] = ()
    ):
        """Makes the nodes of all clients, each with a folder in `path`."""
        self.nodes = {
            i: make_node(config, i, path / str(i), source)
            for i, source in enumerate(parse_node_data(config, data))
        }
        self.memory: dict[int, dict] = {i: {} for i in self.nodes}

    def members(self) -> set[int]:
        """Returns the ids of all clients."""
        return set(self.nodes)

    def ask(self, stage: str, requests: Mapping[int, Payload]) -> dict[int, Payload]:
        """Returns the replies of clients."""
        return {i: self._answer(stage, i, request) for i, request in requests.items()}

    def _answer(self, stage: str, i: int, request: Payload) -> Payload:
        try:
            return self.nodes[i].answer(stage, request, self.memory[i])
        except UserError as e:
            return {REFUSED: str(e)}


def run_in_process(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    data: Sequence[str] = (),
    console: Console | None = None,
    same_code: bool = False,
) -> dict:
    """Runs a federation in this process, without Flower; returns its summary.

    Noise and sampling follow from the seed.

    Args:
      workdir: Folder of the server; clients have theirs in its `nodes/`.
      data: Data source of each client, such as folder:PATH; () for none.
      same_code: Whether a begun run goes on although code of yours has changed.

    Raises:
      UserError: the configuration or the data cannot be used.
    """
    config = rehearsal(config)
    link = InProcessLink(config, Path(workdir) / "nodes", data)
    console = console or make_console(soft_wrap=True)
    return run_server(config, workdir, link, console, same_code)
