"""Persistent process of a client, beside the short ones that Flower starts.

The process listens on a socket in a folder that only its user can read, and requires a
key from the folder of the client. It ends with its node, or when another process
replaces it.
"""

import contextlib
import json
import os
import secrets
import sys
import threading
import time
import traceback
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import psutil

from jaxproto.io import atomic
from jaxproto.nodes.deployment.persistent_client import (
    CONNECTION_ERRORS,
    FILE,
    config_digest,
)
from jaxproto.nodes.flower import apps

POLL_SECONDS = 0.5  # between checks that the node is running


def main():
    """Answers messages until the node ends."""
    arguments = json.load(sys.stdin)
    path, text = Path(arguments["path"]), arguments["text"]
    key = secrets.token_bytes(32)
    with Listener(family="AF_UNIX", authkey=key) as listener:
        address = {"pid": os.getpid(), "socket": listener.address, "key": key.hex()}
        content = json.dumps(address | {"config": config_digest(text)}).encode()
        atomic.write(path / FILE, content, private=True)
        watch = threading.Thread(
            target=_watch,
            args=(path / FILE, content, arguments["parent"], Path(listener.address)),
            daemon=True,
        )
        watch.start()
        while True:
            try:
                with listener.accept() as connection:
                    _answer(text, Path(arguments["home"]), connection)
            except (*CONNECTION_ERRORS, AuthenticationError):
                continue  # the peer has closed the connection or has no key


def _answer(text: str, folder: Path, connection: Connection):
    message, context = connection.recv()
    try:
        reply = apps.handle_message(text, folder, message, context)
    except Exception as e:
        traceback.print_exc()
        connection.send({"failed": f"{type(e).__name__}: {e}"})
        return
    connection.send({"reply": reply, "state": context.state})


def _watch(file: Path, content: bytes, parent: int, socket: Path):
    """Ends the process when its node ends or another process replaces it."""
    try:
        node = psutil.Process(parent)
        while node.is_running() and node.status() != psutil.STATUS_ZOMBIE:
            if file.read_bytes() != content:
                break
            time.sleep(POLL_SECONDS)
    except (psutil.Error, OSError):
        pass
    with contextlib.suppress(OSError):
        socket.unlink()
        socket.parent.rmdir()
    os._exit(0)


if __name__ == "__main__":
    main()
