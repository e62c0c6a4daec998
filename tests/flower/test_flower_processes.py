"""Federations as real processes of Flower, and what happens to some of them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from support import pages
from support.federated import assert_the_same, metrics, rounds, simulated, small

from jaxproto.contrib.flower_deployment import deployment
from jaxproto.contrib.flower_deployment.deployment import Deployment, terminate_tree
from jaxproto.experiment import build
from jaxproto.flower.server_run import FAULTS
from jaxproto.io import atomic
from jaxproto.storage import checkpoint, records

pytestmark = pytest.mark.long
LIMIT = 600.0  # seconds of a test

DAMAGE = '''"""Client 1 waits for its turn to train, and damages its first upload."""

import time
from pathlib import Path


def damage(message, context, call):
    told, mine = message.content["jaxproto"], context.node_config["client"] == 1
    while mine and told.get("round", 0) > int(Path({file!r}).read_text()):
        time.sleep(0.1)
    reply = call(message, context)
    if reply.has_content() and mine and told.get("round") == 0:
        said = reply.content["jaxproto"]
        if "loss" in said:
            said["up"] = said["up"][:-1] + bytes([said["up"][-1] ^ 1])
    return reply
'''


def until(done, process=None):
    end_at = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < end_at, "it takes too long"
        assert process is None or process.poll() is None or done(), "it has ended"
        time.sleep(0.1)


def connected(there, client):
    return "SuperNode ID" in there.log(f"node-{client}").read_text()


def start(there, *clients):
    """Starts SuperNodes, and waits until they are known to the SuperLink."""
    for client in clients:
        there.start_node(client)
    for client in clients:
        until(lambda c=client: connected(there, c), there.nodes[client])


def finished(path):
    file = path / "summary.json"
    return file.exists() and json.loads(file.read_text())["status"] == "finished"


def test_killed_late_and_damaged_clients_cost_what_was_theirs_alone(tmp_path):
    last = tmp_path / "last"  # round, from 0, that client 1 takes part in
    c = small(rounds=5)
    atomic.write(last, b"0")
    with Deployment(c, tmp_path / "run", wait=1.0, patience=90.0) as there:
        there.add_mod("damage", DAMAGE.format(file=str(last)))
        there.start_superlink()
        start(there, 0, 1)
        submitted = there.run()
        until(lambda: 1 in rounds(there.path), submitted)
        start(there, 2)  # late
        atomic.write(last, b"2")
        until(lambda: metrics(there.path)[-1]["participants"] == 3, submitted)
        killed = rounds(there.path)[-1] + 1
        terminate_tree(there.nodes[0], signal.SIGKILL)  # in a round
        atomic.write(last, b"9")
        until(lambda: finished(there.path), submitted)
        terminate_tree(submitted)
    found = records.read(there.path / FAULTS)
    refused = [f for f in found if "refused" in f["why"]]
    assert [(f["round"], f["client"]) for f in refused] == [(1, 1)]
    assert all(f["client"] == 0 for f in found if f["round"] >= killed)
    assert any(f["client"] == 0 for f in found if f["round"] >= killed)
    assert rounds(there.path) == [1, 2, 3, 4, 5]


def test_a_killed_server_goes_on_where_it_was(tmp_path):
    c = small(rounds=3)
    simulated(c, tmp_path / "simulated")
    with Deployment(c, tmp_path / "run", wait=60.0, patience=120.0) as there:
        there.start_superlink()
        start(there, 0, 1, 2)
        first = there.run()
        until(lambda: checkpoint.rounds(there.path / "checkpoints"), first)
        terminate_tree(there.superlink, signal.SIGKILL)
        terminate_tree(first)
        assert not finished(there.path)
        before = records.read(there.path / "metrics.jsonl")[0]
        there.start_superlink()
        second = there.run()
        until(lambda: finished(there.path), second)
        terminate_tree(second)
        assert all(node.poll() is None for node in there.nodes.values())
    assert records.read(there.path / "metrics.jsonl")[0] == before  # seconds too
    assert_the_same(there.path, tmp_path / "simulated")


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        pytest.param(
            "protonorm", {"model.group": "mlp,cnn4_d"}, marks=pytest.mark.landing
        ),
        ("tinyproto", {"model.group": "digits", "wire.up": "int8"}),
    ],
)
def test_a_deployment_of_several_networks_has_the_records_of_the_simulator(
    method, changes, tmp_path
):
    c = small(method, **changes)
    simulated(c, tmp_path / "simulated")
    summary = deployment.deploy(c, tmp_path / "run", wait=120.0, patience=300.0)
    assert summary["status"] == "finished" and rounds(tmp_path / "run") == [1, 2]
    assert len(build.experiment(c, "cpu").cohorts) > 1
    assert_the_same(tmp_path / "run", tmp_path / "simulated")


# The tutorial on nodes with their own data, block by block:
PAGE = pages.DOCS / "tutorials" / "own_nodes.md"
ENDS = 900.0  # seconds of a block
INSTALLS, SERVER, NODE = "git clone", "flower-superlink", "flower-supernode"
COMMANDS = {"bash": ["bash", "-e", "-c"], "python": [sys.executable, "-c"]}


def with_free_ports():
    used = "8000", "9100", "9101", "9102"
    ports = {old: str(deployment.free_port()) for old in used}
    return lambda text: re.sub("|".join(ports), lambda m: ports[m[0]], text)


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def environment(home):
    bin = str(Path(sys.executable).parent)
    places = {"PATH": os.pathsep.join([bin, os.environ["PATH"]])}
    paths = [str(pages.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    places |= {"PYTHONPATH": os.pathsep.join(paths), "FLWR_HOME": str(home / "flower")}
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    return {**os.environ, **places, **quiet}


def test_every_block_of_the_page_does_what_it_says(tmp_path):
    home = tmp_path / "federation"
    home.mkdir()
    (tmp_path / "jaxproto").symlink_to(pages.ROOT)
    renumbered, env, running = with_free_ports(), environment(home), []
    port = int(renumbered("8000"))
    blocks = [b for b in pages.FENCE.findall(PAGE.read_text()) if b[0] in COMMANDS]
    try:
        for kind, text in blocks:
            if text.startswith(INSTALLS):
                continue
            command = [*COMMANDS[kind], renumbered(text) if kind == "bash" else text]
            log = tmp_path / f"{len(running)}.log"
            with log.open("wb") as file:
                told = {"stdout": file, "stderr": subprocess.STDOUT, "cwd": home}
                told |= {"env": env, "start_new_session": True}
                process = subprocess.Popen(command, **told)
            running.append(process)
            if text.startswith(SERVER):
                until(lambda: listens(port), process)
            elif not text.startswith(NODE):
                assert process.wait(ENDS) == 0, log.read_text()[-3000:]
    finally:
        for process in running:
            terminate_tree(process)
    made = json.loads((home / "server" / "agreement.json").read_text())
    assert made["labels"] == ["left", "middle", "right"]
    assert rounds(home / "server") == [1, 2, 3]
    found = records.read(home / "server" / FAULTS)
    assert {f["client"] for f in found} == {2}
    assert any("'lefft', which the agreement does not know" in f["why"] for f in found)
    assert finished(home / "again") and rounds(home / "again") == [1]
