"""The ClientApp of a deployment: it hands each message to a process that stays.

Flower starts a process for every message. This module imports neither JAX nor data, so
that such a process is short: what a client does, its data and its programs are in
`worker.py`, a process that lives as long as the node. It is started with the first
message and anew where it is not there any more.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from jaxproto.flower.node_context import folder_of

HOST = "127.0.0.1"  # nothing listens on another address
FILE = "worker.json"  # in the client's folder: where its process listens, for it alone
START_TIMEOUT = 300.0  # seconds that the process may take
CONNECTION_ERRORS = (
    OSError,
    EOFError,
)  # what a process that was killed leaves at the other end


def client_app(text: str, workdir: str | Path, mods: Sequence = ()) -> ClientApp:
    """A ClientApp of Flower as `apps.client_app`, with a process that stays.

    Args:
      text: the configuration, as its `to_json` writes it.
      workdir: below which a client keeps its networks, in `nodes/<id>`, unless its node
        has a `folder` of its own.
      mods: of Flower, around every message.
    """
    app = ClientApp(mods=list(mods))
    for add in (app.query, app.train, app.evaluate):
        add()(partial(forward_message, text, Path(workdir) / "nodes"))
    return app


def config_digest(text: str) -> str:
    """Of what a process was started for."""
    return hashlib.sha256(text.encode()).hexdigest()


def forward_message(
    text: str, home: Path, message: Message, context: Context
) -> Message:
    """What the client's process says; it is started if it is not there.

    Raises:
      RuntimeError: it cannot be started, or has failed with the message.
    """
    path = folder_of(home, context)
    try:
        told = _asked(path, text, message, context)
    except CONNECTION_ERRORS:
        _start(path, text, home)
        told = _asked(path, text, message, context)
    if "failed" in told:
        raise RuntimeError(told["failed"])
    context.state = told["state"]
    return told["reply"]


def _asked(path: Path, text: str, message: Message, context: Context) -> dict:
    """The answer of the process that is there.

    Raises:
      OSError, EOFError: it is not there, or was killed meanwhile.
    """
    found = worker_address(path)
    if found is None or found["of"] != config_digest(text):
        raise FileNotFoundError(path / FILE)
    key = bytes.fromhex(found["key"])
    with Client((HOST, found["port"]), authkey=key) as connection:
        connection.send((message, context))
        return connection.recv()


def worker_address(path: Path) -> dict | None:
    """Where the process of a client listens, if it has said so."""
    try:
        return json.loads((path / FILE).read_text())
    except (OSError, ValueError):
        return None


def _start(path: Path, text: str, home: Path):
    """Starts the process, and waits until it listens.

    Raises:
      RuntimeError: it does not.
    """
    path.mkdir(parents=True, exist_ok=True)
    (path / FILE).unlink(missing_ok=True)
    given = {"text": text, "home": str(home), "path": str(path)}
    command = [
        sys.executable,
        "-m",
        "jaxproto.contrib.flower_deployment.client_process",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    with process.stdin as file:  # its parent's end is the node's: see there
        json.dump(given | {"parent": os.getppid()}, file)
    until = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < until:
        if (found := worker_address(path)) and found["pid"] == process.pid:
            return
        time.sleep(0.05)
    raise RuntimeError(
        f"the process of the client in {path} does not listen: see the node's log."
    )
