"""ClientApp of a deployment that forwards each message to a persistent process.

Flower starts a process for every message. This module keeps that process short: it
imports no JAX and loads no data. `client_process.py` runs a second process that lives
as long as the node and has the data and programs of the client. The first message
starts it, and a later one restarts it if it has ended.
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

from jaxproto.io.owner_only import owner_only_folder, read_owner_only
from jaxproto.nodes.flower.node_context import folder_of

HOST = "127.0.0.1"  # address that the processes of a deployment listen on
FILE = "worker.json"  # address and key of the process, in the folder of the client
START_TIMEOUT = 300.0  # seconds until the process listens
CONNECTION_ERRORS = (OSError, EOFError)  # of a connection to a killed process


def client_app(text: str, workdir: str | Path, mods: Sequence = ()) -> ClientApp:
    """Returns a ClientApp like `apps.client_app`, with a persistent process.

    Args:
      text: Configuration in JSON, as its `to_json` writes it.
      workdir: Folder whose `nodes/<id>` holds the checkpoints of a client, unless its
        node configures a `folder`.
      mods: Mods of Flower around every message.
    """
    app = ClientApp(mods=list(mods))
    for register in (app.query, app.train, app.evaluate):
        register()(partial(forward_message, text, Path(workdir) / "nodes"))
    return app


def config_digest(text: str) -> str:
    """Returns the digest of a configuration."""
    return hashlib.sha256(text.encode()).hexdigest()


def forward_message(
    text: str, folder: Path, message: Message, context: Context
) -> Message:
    """Forwards a message to the process of the client; starts the process if needed.

    Raises:
      RuntimeError: the process cannot be started, or failed with the message.
    """
    path = folder_of(folder, context)
    try:
        answer = _ask(path, text, message, context)
    except CONNECTION_ERRORS:
        _start(path, text, folder)
        answer = _ask(path, text, message, context)
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    context.state = answer["state"]
    return answer["reply"]


def _ask(path: Path, text: str, message: Message, context: Context) -> dict:
    """Returns the answer of the running process.

    Raises:
      OSError, EOFError: no process runs, or it was killed before it answered.
    """
    address = worker_address(path)
    if address is None or address.get("config") != config_digest(text):
        raise FileNotFoundError(path / FILE)
    key = bytes.fromhex(address["key"])
    with Client(address["socket"], authkey=key) as connection:
        connection.send((message, context))
        return connection.recv()


def worker_address(path: Path) -> dict | None:
    """Reads the address of the process of a client; None without one.

    A file that another user could have written does not count.
    """
    try:
        return json.loads(read_owner_only(path / FILE))
    except (OSError, ValueError):
        return None


def _start(path: Path, text: str, folder: Path):
    """Starts the process and waits until it listens.

    Raises:
      RuntimeError: the process does not listen.
    """
    owner_only_folder(path)
    (path / FILE).unlink(missing_ok=True)
    arguments = {"text": text, "home": str(folder), "path": str(path)}
    module = "jaxproto.nodes.deployment.client_process"
    command = [sys.executable, "-m", module]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    with process.stdin as file:  # the process ends with the node, our parent
        json.dump(arguments | {"parent": os.getppid()}, file)
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if (address := worker_address(path)) and address["pid"] == process.pid:
            return
        time.sleep(0.05)
    raise RuntimeError(
        f"the process of the client in {path} does not listen: see the node's log."
    )
