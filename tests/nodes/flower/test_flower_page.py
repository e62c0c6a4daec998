"""The tutorial on nodes with their own data, block by block, by processes of Flower."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from support import pages
from support.federated import finished, rounds
from support.processes import until

from jaxproto.nodes.deployment import deployment
from jaxproto.nodes.deployment.deployment import terminate_tree
from jaxproto.nodes.flower.server_run import FAULTS
from jaxproto.storage import records

pytestmark = pytest.mark.long
PAGE = pages.DOCS / "tutorials" / "own_nodes.md"
ENDS = 900.0  # seconds of a block
INSTALLS, SERVER, NODE = "python3 -m venv", "flower-superlink", "flower-supernode"
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
