"""ServerApp and ClientApp of Flower for a federation.

A message is a ConfigRecord with its stage, the round and encoded bytes. The option
`--node-config` of a node gives its `client` id (a simulation of Flower gives the
partition id) and optionally the `folder` of its checkpoints.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import ml_collections
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from jaxproto.errors import UserError
from jaxproto.nodes.flower import accept
from jaxproto.nodes.flower.accept import REFUSED
from jaxproto.nodes.flower.node import Node, Payload
from jaxproto.nodes.flower.node_context import MEMORY, RECORD, client_of, folder_of
from jaxproto.nodes.flower.private_data_node import PrivateDataNode, make_node
from jaxproto.nodes.flower.protocol import config_hash, parse_config, versions
from jaxproto.nodes.flower.server_run import run_server
from jaxproto.storage import default_workdir
from jaxproto.summary.progress_lines import make_console

MESSAGE_TYPES = {  # of a message in Flower, by stage
    "who": MessageType.QUERY,
    "describe": MessageType.QUERY,
    "agree": MessageType.QUERY,
    "first": MessageType.QUERY,
    "train": MessageType.TRAIN,
    "evaluate": MessageType.EVALUATE,
}
ERROR = "error"  # field of a reply with the error code of Flower
POLL_SECONDS = 0.5  # between two requests for nodes or replies


def client_app(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    mods: Sequence = (),
    data: Sequence[str] = (),
) -> ClientApp:
    """Returns the ClientApp of Flower for one client of a federation.

    Args:
      config: Configuration of the federation, equal to that of the server.
      workdir: Folder whose `nodes/<id>` holds the checkpoints of a client, unless its
        node configures a `folder`; "" is the run directory of the simulator.
      mods: Mods of Flower around every message.
      data: Data source of each client, such as folder:PATH; () for none. The `data` of
        a node configuration takes precedence.
    """
    app = ClientApp(mods=list(mods))
    root = Path(workdir or default_workdir.default_workdir(config)) / "nodes"
    handle = partial(handle_message, config.to_json(), root, data=tuple(data))
    for register in (app.query, app.train, app.evaluate):
        register()(handle)
    return app


def handle_message(
    text: str, root: Path, message: Message, context: Context, data: Sequence[str] = ()
) -> Message:
    """Returns the reply of a node to a message.

    Args:
      text: Configuration in JSON.
      root: Folder that holds a folder per client.
    """
    request = dict(message.content.config_records[RECORD])
    try:
        reply = _reply(text, root, request, context, data)
    except UserError as e:
        reply = {REFUSED: str(e)}
    return Message(RecordDict({RECORD: ConfigRecord(reply)}), reply_to=message)


def _reply(
    text: str, root: Path, request: Payload, context: Context, data: Sequence[str]
) -> Payload:
    id = client_of(context)
    fallback = data[id] if 0 <= id < len(data) else ""
    source = str(context.node_config.get("data", fallback))
    if request["stage"] == "who":
        if request["federation"] != config_hash(parse_config(text)):
            raise UserError(
                f"client {id} has another configuration or other versions than the "
                f"server; it has {versions()}."
            )
        return {"client": id}
    memory = dict(context.state.config_records.get(MEMORY, {}))
    client = node(text, id, folder_of(root, context), source)
    reply = client.answer(str(request["stage"]), request, memory)
    context.state[MEMORY] = ConfigRecord(memory)
    return reply


@cache
def node(text: str, id: int, path: Path, source: str) -> Node | PrivateDataNode:
    """Returns the client of this process; cached, so programs compile once."""
    return make_node(parse_config(text), id, path, source)


def server_app(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    wait: float = 60.0,
    patience: float = 600.0,
    same_code: bool = False,
) -> ServerApp:
    """Returns the ServerApp of Flower for a federation.

    Args:
      workdir: Folder of the server; "" is the run directory of the simulator.
      wait: Seconds to wait for all clients before the first round; clients that
        connect later join then.
      patience: Seconds that a client has to reply to a message.
      same_code: Whether a begun run goes on although code of yours has changed.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context):
        console = make_console(soft_wrap=True)
        report = partial(console.print, markup=False, highlight=False)
        link = GridLink(grid, config, wait, patience, report)
        run_server(config, workdir, link, console, same_code)

    return app


class GridLink:
    """Link to the clients behind a Grid of Flower."""

    def __init__(
        self,
        grid: Grid,
        config: ml_collections.ConfigDict,
        wait: float,
        patience: float,
        report: Callable[[str], object],
    ):
        """Contacts no node yet; `report` receives a line about each refused node."""
        self.grid, self.patience, self.wait = grid, patience, wait
        self.num_clients, self.federation = config.data.clients, config_hash(config)
        self.nodes: dict[int, int] = {}  # node by connected client
        self._clients: dict[int, int] = {}  # client by node, in the order of arrival
        self._refused: set[int] = set()  # nodes
        self._failed: set[tuple[int, str]] = set()  # nodes and their errors
        self._report = report

    def members(self) -> set[int]:
        """Returns the connected clients; the first call waits for all clients."""
        deadline, self.wait = time.monotonic() + self.wait, 0.0
        while True:
            connected = self._identify_nodes()
            if len(connected) == self.num_clients or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        if not connected and not self._clients:
            raise UserError("no client is connected; start SuperNodes and try again.")
        return connected

    def _identify_nodes(self) -> set[int]:
        """Returns the connected clients; only the first node of a client counts."""
        connected = set(self.grid.get_node_ids())
        request: Payload = {"stage": "who", "federation": self.federation}
        unknown = connected - self._clients.keys() - self._refused
        replies = self._exchange("who", dict.fromkeys(unknown, request))
        last = self.num_clients - 1
        known = accept.accepted_replies(
            replies,
            lambda node, reply: accept.number(reply, "client", int, 0, last),
            lambda node, why: self._refuse(node, why, ERROR in replies[node]),
        )
        self._clients |= known
        self.nodes = {}
        for node, i in self._clients.items():
            is_second = node in connected and self.nodes.setdefault(i, node) != node
            if is_second and node in known:
                self._report(
                    f"a node is refused: client {i} is connected from another node; "
                    "this one waits until that one leaves."
                )
        return set(self.nodes)

    def _refuse(self, node: int, why: str, is_error: bool):
        """Reports a node once; the next call asks one with an error again."""
        if not is_error:
            self._refused.add(node)
            self._report(f"a node is refused: {why}")
        elif (node, why) not in self._failed:
            self._failed.add((node, why))
            self._report(f"a node is asked again: {why}")

    def ask(self, stage: str, requests: Mapping[int, Payload]) -> dict[int, Payload]:
        """Returns the replies of clients."""
        nodes = {i: self.nodes[i] for i in requests}
        by_node = {
            nodes[i]: {"stage": stage, **request} for i, request in requests.items()
        }
        replies = self._exchange(stage, by_node)
        timeout = {REFUSED: f"no answer in {self.patience:g} seconds"}
        return {i: replies.get(node, timeout) for i, node in nodes.items()}

    def _exchange(self, stage: str, requests: Mapping) -> dict[int, Payload]:
        """Returns the replies of nodes; unfetched messages expire after `patience`."""
        if not requests:
            return {}
        messages = [
            Message(
                content=RecordDict({RECORD: ConfigRecord(dict(request))}),
                message_type=MESSAGE_TYPES[stage],
                dst_node_id=node,
                ttl=self.patience + POLL_SECONDS,  # late nodes read newer messages
            )
            for node, request in requests.items()
        ]
        ids = zip(self.grid.push_messages(messages), requests, strict=False)
        waiting = {id: node for id, node in ids if id}
        replies, deadline = dict[int, Payload](), time.monotonic() + self.patience
        while waiting and time.monotonic() < deadline:
            for message in self.grid.pull_messages(list(waiting)):
                node = waiting.pop(message.metadata.reply_to_message_id)
                replies[node] = _content(message)
            time.sleep(POLL_SECONDS if waiting else 0.0)
        return replies


def _content(message: Message) -> Payload:
    """Returns the fields of a reply; an error becomes a refusal with its reason."""
    if message.has_error():
        code, reason = message.error.code, (message.error.reason or "").strip()
        last_line = "".join(reason.splitlines()[-1:])
        return {ERROR: code, REFUSED: f"error {code} of its node: {last_line}"}
    records = message.content.config_records
    return dict(records[RECORD]) if RECORD in records else {REFUSED: "an empty reply"}
