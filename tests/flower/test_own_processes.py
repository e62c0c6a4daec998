"""The tutorial on nodes with their own data, block by block, with real processes."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import pages

pytest.importorskip("flwr")

from jaxproto.contrib.flower_deployment.deployment import free_port, terminate_tree
from jaxproto.storage import records

pytestmark = pytest.mark.long
PAGE = pages.DOCS / "tutorials" / "own_nodes.md"
ENDS = 900.0  # seconds of a block
INSTALLS, SERVER, NODE = "git clone", "flower-superlink", "flower-supernode"


def blocks():
    """Language and text of the fenced blocks of the page, in their order."""
    found = pages.FENCE.findall(PAGE.read_text())
    return [(kind, text) for kind, text in found if kind in ("python", "bash")]


def with_free_ports():
    """Text -> the text with ports that nobody has."""
    ports = {old: str(free_port()) for old in ("8000", "9100", "9101", "9102")}
    return lambda text: re.sub("|".join(ports), lambda m: ports[m[0]], text)


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "federation"
    folder.mkdir()
    (tmp_path / "jaxproto").symlink_to(pages.ROOT)
    return folder


def environment(home):
    bin = str(Path(sys.executable).parent)
    places = {"PATH": os.pathsep.join([bin, os.environ["PATH"]])}
    paths = [str(pages.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    places |= {"PYTHONPATH": os.pathsep.join(paths), "FLWR_HOME": str(home / "flower")}
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    return {**os.environ, **places, **quiet}


def test_every_block_of_the_page_does_what_it_says(home):
    renumbered, env, running, said = with_free_ports(), environment(home), [], []
    port = int(renumbered("8000"))
    try:
        for kind, text in blocks():
            if text.startswith(INSTALLS):
                continue
            command = ["bash", "-e", "-c", renumbered(text)]
            if kind == "python":
                command = [sys.executable, "-c", text]
            with (home.parent / f"{len(said)}.log").open("wb") as log:
                told = {"stdout": log, "stderr": subprocess.STDOUT, "cwd": home}
                told |= {"env": env, "start_new_session": True}
                process = subprocess.Popen(command, **told)
            said.append(home.parent / f"{len(said)}.log")
            running.append(process)
            if text.startswith(SERVER):
                until = time.monotonic() + ENDS
                while not listens(port):
                    assert time.monotonic() < until and process.poll() is None
                    time.sleep(0.2)
            elif not text.startswith(NODE):
                assert process.wait(ENDS) == 0, said[-1].read_text()[-3000:]
    finally:
        for process in running:
            terminate_tree(process)
    check(home)


def check(home):
    rounds = [r["round"] for r in records.read(home / "server" / "metrics.jsonl")]
    made = json.loads((home / "server" / "agreement.json").read_text())
    assert rounds == [1, 2, 3] and made["labels"] == ["left", "middle", "right"]
    faults = records.read(home / "server" / "faults.jsonl")
    assert {f["client"] for f in faults} == {2}
    assert any("'lefft', which the agreement does not know" in f["why"] for f in faults)
    summary = json.loads((home / "again" / "summary.json").read_text())
    assert summary["status"] == "finished" and summary["rounds"] == 1
