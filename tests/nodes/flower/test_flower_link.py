"""The ends of Flower's messages: the server's link, a client's process that stays."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.every import every
from support.processes import until
from support.simulated import small

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from jaxproto.nodes.deployment import persistent_client
from jaxproto.nodes.flower.accept import REFUSED
from jaxproto.nodes.flower.apps import RECORD, GridLink, config_hash

STAYS = pytest.mark.filterwarnings("ignore:subprocess .* running:ResourceWarning")


@pytest.fixture(autouse=True)
def of_a_run(monkeypatch):
    """As in a process that Flower has started."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Grid:
    """Flower's grid with nodes of this process: functions of the messages they get."""

    def __init__(self, nodes):
        self.nodes, self.sent, self.messages = nodes, [], {}

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            id = f"m{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = id
            self.sent.append(message)
            self.messages[id] = message
            yield id

    def pull_messages(self, ids):
        for id in reversed(ids):  # in another order than they were sent
            message = self.messages[id]
            said = self.nodes[message.metadata.dst_node_id](message.content[RECORD])
            if isinstance(said, Error):
                error = Message(said, reply_to=message)
                error.metadata.__dict__["_src_node_id"] = 1  # the SuperLink
                yield error
            elif said is not None:
                empty = isinstance(said, RecordDict)
                content = said if empty else RecordDict({RECORD: ConfigRecord(said)})
                yield Message(content, reply_to=message)


def client(id):
    return lambda told: {"client": id} if told["stage"] == "who" else {"of": id}


def link(nodes, said, patience=1.0):
    grid = Grid(nodes)
    return grid, GridLink(grid, small(), 0.0, patience, said.append)


def test_errors_and_silence_are_of_the_client_that_was_asked():
    """Flower's errors come from the SuperLink, whichever node they are about."""
    answers, said = iter([Error(code=5, reason="new")] * 2 + [{"client": 1}]), []
    _, there = link({7: client(0), 8: lambda _: next(answers)}, said)
    assert [there.members() for _ in range(3)] == [{0}, {0}, {0, 1}]
    assert said == ["a node is asked again: error 5 of its node: new"]
    grid, there = link({7: client(0), 8: client(1), 9: client(2)}, [], patience=0.3)
    there.members()
    grid.nodes[8] = lambda _: Error(code=4, reason="the node\nis offline")
    grid.nodes[9] = lambda _: None
    found = there.ask("train", {i: {} for i in range(3)})
    assert found[0] == {"of": 0}
    assert found[1][REFUSED] == "error 4 of its node: is offline"
    assert found[2][REFUSED] == "no answer in 0.3 seconds"
    grid.nodes = {7: lambda _: RecordDict()}
    assert there.ask("train", {0: {}}) == {0: {REFUSED: "an empty reply"}}


LIES = [  # what a node says that it is
    ({"client": "abc"}, "client is 'abc', not int from 0 to 2"),
    ({"client": 3}, "client is 3"),
    ({"client": True}, "client is True"),
    ({"other": 1}, "malformed: KeyError('client')"),
    (RecordDict(), "an empty reply"),
    ({REFUSED: "\x1b[2J[red]"}, "\\x1b[2J[red]"),
]


@every(LIES)
def test_a_node_that_is_no_client_is_refused_with_a_line(reply, words):
    said = []
    grid, there = link({7: client(0), 8: lambda _: reply}, said)
    assert there.members() == there.members() == {0} and len(grid.sent) == 2
    (line,) = said
    assert line.startswith("a node is refused: ") and words in line


def test_a_second_node_of_a_client_waits_until_the_first_has_left():
    said = []
    grid, there = link({7: client(0), 8: client(1)}, said)
    assert there.members() == {0, 1}
    grid.nodes[9] = client(1)
    assert there.members() == there.members() == {0, 1} and there.nodes[1] == 8
    waits = "this one waits until that one leaves."
    start = "a node is refused: client 1 is connected from another node"
    assert said == [f"{start}; {waits}"]
    gone = grid.nodes.pop(8)
    assert there.members() == {0, 1} and there.nodes[1] == 9
    assert there.ask("train", {0: {}, 1: {}}) == {0: {"of": 0}, 1: {"of": 1}}
    grid.nodes[8] = gone  # with the same key
    assert there.members() == {0, 1} and there.nodes[1] == 8 and len(said) == 1


def asked(c, path, number):
    told = {"stage": "who", "federation": config_hash(c)}
    content = RecordDict({RECORD: ConfigRecord(told)})
    message = Message(content, message_type="query", dst_node_id=7)
    own = {"client": number, "folder": str(path)}
    context = Context(1, 7, own, RecordDict(), {})
    reply = persistent_client.forward_message(c.to_json(), path, message, context)
    return dict(reply.content[RECORD]), persistent_client.worker_address(path)["pid"]


@STAYS
@pytest.mark.long
def test_a_clients_process_stays_and_is_started_again(tmp_path):
    c, path = small(), tmp_path / "node"
    said, first = asked(c, path, 2)
    assert said == {"client": 2}
    assert asked(c, path, 2) == (said, first)
    file = path / persistent_client.FILE
    socket = Path(persistent_client.worker_address(path)["socket"])
    for one in (path, file, socket.parent):
        assert one.stat().st_mode & 0o077 == 0
    file.chmod(0o666)
    assert persistent_client.worker_address(path) is None  # anyone could write it
    file.chmod(0o600)
    os.kill(first, signal.SIGKILL)
    said, second = asked(c, path, 2)
    assert said == {"client": 2} and second != first
    _, third = asked(small(seed=1), path, 2)  # a run of another configuration
    assert third != second
    os.kill(third, signal.SIGKILL)


@STAYS
@pytest.mark.long
def test_a_clients_process_ends_with_its_node(tmp_path, monkeypatch):
    node = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(persistent_client.os, "getppid", lambda: node.pid)
    _, pid = asked(small(), tmp_path / "node", 0)
    node.kill()
    node.wait()
    until(lambda: not alive(pid))


def alive(pid):
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False
