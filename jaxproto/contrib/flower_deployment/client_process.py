"""The process of one client that stays, beside those that Flower starts and ends.

It listens on the loopback address; who asks shows a key that is in the client's folder,
readable by its user alone. It ends when its node does, or when another has taken its
place.
"""

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

from jaxproto.contrib.flower_deployment.persistent_client import (
    CONNECTION_ERRORS,
    FILE,
    HOST,
    config_digest,
)
from jaxproto.flower import apps
from jaxproto.io import atomic

POLL_SECONDS = 0.5  # seconds between two looks at whether the node is there


def main():
    """Answers messages until the node ends."""
    given = json.load(sys.stdin)
    path, text, key = Path(given["path"]), given["text"], secrets.token_bytes(32)
    with Listener((HOST, 0), authkey=key) as listener:
        own = {"pid": os.getpid(), "port": listener.address[1], "key": key.hex()}
        told = json.dumps(own | {"of": config_digest(text)}).encode()
        atomic.write(path / FILE, told, private=True)
        watch = threading.Thread(
            target=_watch, args=(path / FILE, told, given["parent"]), daemon=True
        )
        watch.start()
        while True:
            try:
                with listener.accept() as connection:
                    _answer(text, Path(given["home"]), connection)
            except (*CONNECTION_ERRORS, AuthenticationError):
                continue  # whoever asked has gone, or must not ask


def _answer(text: str, home: Path, connection: Connection):
    message, context = connection.recv()
    try:
        reply = apps.handle_message(text, home, message, context)
    except Exception as e:
        traceback.print_exc()
        connection.send({"failed": f"{type(e).__name__}: {e}"})
        return
    connection.send({"reply": reply, "state": context.state})


def _watch(file: Path, told: bytes, parent: int):
    """Ends the process when nobody needs it any more."""
    try:
        node = psutil.Process(parent)
        while node.is_running() and node.status() != psutil.STATUS_ZOMBIE:
            if file.read_bytes() != told:
                break
            time.sleep(POLL_SECONDS)
    except (psutil.Error, OSError):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
