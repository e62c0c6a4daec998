"""The ServerApp and the ClientApp of Flower: a few lines around both halves.

A message is a ConfigRecord: its stage, the round and the bytes of the codec. A node
says which client it is: `client` of its `--node-config`, in Flower's simulation the
number of its partition. `folder` there is where it keeps its networks.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import ml_collections
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from rich.console import Console

from jaxproto import config as config_
from jaxproto.errors import UserError, choose_from
from jaxproto.flower.node import Answer, Node
from jaxproto.flower.node_context import MEMORY, RECORD, client_of, folder_of
from jaxproto.flower.private_data_node import PrivateDataNode, make_node
from jaxproto.flower.protocol import config_hash
from jaxproto.flower.server import REFUSED
from jaxproto.flower.server_run import run_server
from jaxproto.methods import METHODS
from jaxproto.storage import default_workdir

TYPES = {  # of Flower's messages, by stage
    "who": MessageType.QUERY,
    "describe": MessageType.QUERY,
    "agree": MessageType.QUERY,
    "first": MessageType.QUERY,
    "train": MessageType.TRAIN,
    "evaluate": MessageType.EVALUATE,
}
ERROR = "error"  # in what is said for a node, by Flower
MEMBERS_POLL_SECONDS = 0.5  # seconds between two looks at who is there
ANSWERS_POLL_SECONDS = 0.5  # seconds between two looks at what has come


def parse_config(text: str) -> ml_collections.ConfigDict:
    """The configuration that `to_json` wrote.

    Raises:
      UserError: a field is not one of this version.
    """
    flat = config_.upgrade_saved(json.loads(text))
    made = config_.default()
    name = choose_from("method", flat["method.name"], METHODS)
    made.method = ml_collections.ConfigDict(config_.method_fields(name))
    made.update_from_flattened_dict(flat)
    config_.check(made)
    return made


def client_app(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    mods: Sequence = (),
    data: Sequence[str] = (),
) -> ClientApp:
    """A ClientApp of Flower: one client of the federation.

    Args:
      config: the same as the server's.
      workdir: below which a client keeps its networks, in `nodes/<id>`, unless its node
        has a `folder` of its own; "" is the folder of the simulator's run.
      mods: of Flower, around every message.
      data: of each client with data of its own, such as folder:PATH, unless its node
        says so.
    """
    app = ClientApp(mods=list(mods))
    home = Path(workdir or default_workdir.default_workdir(config)) / "nodes"
    handle = partial(handle_message, config.to_json(), home, data=tuple(data))
    for add in (app.query, app.train, app.evaluate):
        add()(handle)
    return app


def handle_message(
    text: str,
    home: Path,
    message: Message,
    context: Context,
    data: Sequence[str] = (),
) -> Message:
    """What a node says to a message."""
    told = dict(message.content.config_records[RECORD])
    try:
        said = _said(text, home, told, context, data)
    except UserError as e:
        said = {REFUSED: str(e)}
    return Message(RecordDict({RECORD: ConfigRecord(said)}), reply_to=message)


def _said(
    text: str, home: Path, told: Answer, context: Context, data: Sequence[str] = ()
) -> Answer:
    id = client_of(context)
    default = data[id] if 0 <= id < len(data) else ""
    source = str(context.node_config.get("data", default))
    if told["stage"] == "who":
        if told["federation"] != config_hash(parse_config(text)):
            raise UserError(f"client {id} has another configuration than the server.")
        return {"client": id}
    path = folder_of(home, context)
    records = context.state.config_records
    memory = dict(records.get(MEMORY, {}))
    said = node(text, id, path, source).answer(str(told["stage"]), told, memory)
    context.state[MEMORY] = ConfigRecord(memory)
    return said


@cache
def node(text: str, id: int, path: Path, source: str) -> Node | PrivateDataNode:
    """The client of this process, made once; its programs are compiled once."""
    return make_node(parse_config(text), id, path, source)


def server_app(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    wait: float = 60.0,
    patience: float = 600.0,
) -> ServerApp:
    """A ServerApp of Flower: the server of the federation, with a run's folder.

    Args:
      config: of the federation.
      workdir: the server's folder; "" is the one of the simulator's run.
      wait: seconds that it waits for all clients before its first round; then it begins
        with those that are there. Others join as they come.
      patience: seconds that a client has for a message.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context):
        del context
        console = Console(soft_wrap=True)
        link = GridLink(grid, config, wait, patience, console.print)
        run_server(config, workdir, link, console)

    return app


class GridLink:
    """The clients behind a Grid of Flower."""

    def __init__(
        self,
        grid: Grid,
        config: ml_collections.ConfigDict,
        wait: float,
        patience: float,
        say: Callable[[str], object],
    ):
        """Of a run; waits for nobody yet. What is refused is said."""
        self.grid, self.patience, self.wait = grid, patience, wait
        self.number, self.federation = config.data.clients, config_hash(config)
        self.nodes: dict[int, int] = {}  # of each client
        self._asked: set[int] = set()  # nodes that have said who they are
        self._say = say

    def members(self) -> set[int]:
        """The clients that are there now; the first time, it waits for all of them.

        Raises:
          UserError: nobody came.
        """
        until, self.wait = time.monotonic() + self.wait, 0.0
        while True:
            there = self._there()
            if len(there) == self.number or time.monotonic() > until:
                break
            time.sleep(MEMBERS_POLL_SECONDS)
        if not there and not self.nodes:
            raise UserError("no client is connected; start SuperNodes and try again.")
        return there

    def _there(self) -> set[int]:
        nodes = set(self.grid.get_node_ids())
        told: Answer = {"stage": "who", "federation": self.federation}
        new = dict.fromkeys(nodes - self._asked, told)
        for at, said in (self._sent("who", new) if new else {}).items():
            if ERROR in said:
                continue  # it is asked again
            self._asked.add(at)
            if REFUSED in said:
                self._say(f"a node is refused: {said[REFUSED]}")
            else:
                self.nodes[int(said["client"])] = at
        return {i for i, at in self.nodes.items() if at in nodes and i < self.number}

    def ask(self, stage: str, told: Mapping[int, Answer]) -> dict[int, Answer]:
        """What clients say."""
        each = {self.nodes[i]: {"stage": stage, **of} for i, of in told.items()}
        said, late = self._sent(stage, each), f"no answer in {self.patience:g} seconds"
        return {i: said.get(self.nodes[i], {REFUSED: late}) for i in told}

    def _sent(self, stage: str, told: Mapping[int, Answer]) -> dict[int, Answer]:
        """What nodes say; a message that was not fetched in time is none any more."""
        out = [
            Message(
                content=RecordDict({RECORD: ConfigRecord(dict(of))}),
                message_type=TYPES[stage],
                dst_node_id=at,
                ttl=self.patience
                + MEMBERS_POLL_SECONDS,  # who comes back later reads newer ones
            )
            for at, of in told.items()
        ]
        ids = zip(self.grid.push_messages(out), told, strict=False)
        waiting = {id: at for id, at in ids if id}
        said, until = dict[int, Answer](), time.monotonic() + self.patience
        while waiting and time.monotonic() < until:
            for message in self.grid.pull_messages(list(waiting)):
                at = waiting.pop(message.metadata.reply_to_message_id)
                said[at] = _content(message)
            time.sleep(ANSWERS_POLL_SECONDS if waiting else 0.0)
        return said


def _content(message: Message) -> Answer:
    """What a node says, or why it says nothing."""
    if message.has_error():
        code, why = message.error.code, (message.error.reason or "").strip()
        last = "".join(why.splitlines()[-1:])
        return {ERROR: code, REFUSED: f"error {code} of its node: {last}"}
    return dict(message.content.config_records[RECORD])
