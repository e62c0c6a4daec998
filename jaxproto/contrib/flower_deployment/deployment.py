"""A deployment on this machine: one SuperLink and a SuperNode for every client.

All listen on the loopback address alone; between SuperLink and SuperNodes there is TLS
with certificates made for the run. `app/` in the folder is the app as `flwr run` takes
it, `flower/` what Flower's own programs write.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import ml_collections
import psutil

from jaxproto.contrib.flower_deployment.certificates import Certificates, make
from jaxproto.contrib.flower_deployment.persistent_client import HOST
from jaxproto.errors import UserError
from jaxproto.flower.private_data_node import parse_node_data
from jaxproto.io import atomic
from jaxproto.storage.run_folder import RunFolder

PROJECT = """[project]
name = "federation"
version = "1.0.0"

[tool.flwr.app]
publisher = "jaxproto"

[tool.flwr.app.components]
serverapp = "federation:server"
clientapp = "node:client"
"""
SERVER = '''"""The ServerApp of one federation, written by jaxproto.flower."""

from jaxproto.flower import parse_config, server_app

CONFIG = parse_config({config!r})
server = server_app(CONFIG, {workdir!r}, wait={wait!r}, patience={patience!r})
'''
CLIENT = '''"""The ClientApp of one federation, written by jaxproto.flower."""

from jaxproto.contrib.flower_deployment.persistent_client import client_app

CONFIG = {config!r}
client = client_app(CONFIG, {workdir!r})
'''
LINK = """[superlink]
default = "here"

[superlink.here]
address = "{address}"
root-certificates = "{authority}"
"""
START_TIMEOUT = 60.0  # seconds that the SuperLink may take


def write_app(
    config: ml_collections.ConfigDict,
    workdir: Path,
    wait: float = 60.0,
    patience: float = 600.0,
) -> Path:
    """Writes the app that `flwr run` takes; returns its folder.

    Args:
      config: of the federation.
      workdir: the server's folder.
      wait, patience: of `server_app`.
    """
    folder = workdir / "app"
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "pyproject.toml", PROJECT.encode())
    said = {"config": config.to_json(), "workdir": str(workdir)}
    server = SERVER.format(**said, wait=wait, patience=patience)
    atomic.write(folder / "federation.py", server.encode())
    atomic.write(folder / "node.py", CLIENT.format(**said).encode())
    return folder


class Deployment:
    """The processes of a federation on this machine.

    Attributes:
      nodes: the process of each client's SuperNode.
      superlink: its process.
    """

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        workdir: str | Path,
        data: Sequence[str] = (),
        **times: float,
    ):
        """Of a configuration; starts nothing.

        Args:
          data: of each client with data of its own, such as folder:PATH.

        Raises:
          UserError: Flower's programs are not installed.
        """
        self.path = Path(workdir).resolve()
        self.home = self.path / "flower"
        self.sources = parse_node_data(config, data)
        self.app = write_app(config, self.path, **times)
        self.certificates: Certificates = make(self.home / "certificates")
        self.port = free_port()
        self.database = self.home / "superlink.db"  # which nodes there are
        self.database.unlink(missing_ok=True)  # those of this deployment are new
        self.nodes: dict[int, subprocess.Popen] = {}
        self.superlink: subprocess.Popen | None = None
        bin = Path(sys.executable).parent
        places = os.pathsep.join([str(bin), os.environ.get("PATH", "")])
        if shutil.which("flower-superlink", path=places) is None:
            raise UserError(
                "Flower is not installed: python -m pip install 'jaxproto[flower]'."
            )
        self.environment = {
            **os.environ,
            "PATH": places,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        said = {"address": self.address, "authority": self.certificates.authority}
        atomic.write(self.home / "config.toml", LINK.format(**said).encode())

    @property
    def address(self) -> str:
        """Of the SuperLink."""
        return f"{HOST}:{self.port}"

    def start_superlink(self):
        """Starts the SuperLink, and waits until it listens.

        Raises:
          UserError: it does not.
        """
        _, certificate, key = map(str, self.certificates)
        self.superlink = self._start(
            "superlink",
            *("flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--ssl-ca-certfile", str(self.certificates.authority)),
            *("--ssl-certfile", certificate, "--ssl-keyfile", key),
            *("--database", str(self.database)),
            "--disable-runtime-dependency-installation",
        )
        until = time.monotonic() + START_TIMEOUT
        while time.monotonic() < until and self.superlink.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((HOST, self.port), 1.0),
            ):
                return
            time.sleep(0.2)
        raise UserError(f"the SuperLink does not listen; see {self.log('superlink')}.")

    def add_mod(self, name: str, text: str):
        """Puts a mod of Flower, a function of this name, around every message.

        Args:
          text: of its module.
        """
        atomic.write(self.app / f"{name}.py", text.encode())
        file = self.app / "node.py"
        last = f"client = client_app(CONFIG, {str(self.path)!r}, mods=[{name}])\n"
        changed = f"from {name} import {name}\n{file.read_text()}{last}"
        atomic.write(file, changed.encode())

    def start_node(self, client: int, **more: int):
        """Starts the SuperNode of a client; `more` is in the node's configuration."""
        folder = self.path / "nodes" / str(client)
        own = f"client={client} folder={json.dumps(str(folder))}"
        if source := self.sources[client]:
            own += f" data={json.dumps(source)}"
        own += "".join(f" {name}={value}" for name, value in more.items())
        self.nodes[client] = self._start(
            f"node-{client}",
            *("flower-supernode", "--superlink", self.address, "--node-config", own),
            *("--root-certificates", str(self.certificates.authority)),
            *("--host", HOST, "--port", str(free_port())),
        )

    def run(self) -> subprocess.Popen:
        """Submits the app; the process ends when the run does."""
        return self._start("run", "flwr", "run", str(self.app), "here", "--stream")

    def log(self, name: str) -> Path:
        """What a process says."""
        return self.home / f"{name}.log"

    def _start(self, name: str, *command: str) -> subprocess.Popen:
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.home,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """Ends all processes."""
        every = [*self.nodes.values(), *filter(None, [self.superlink])]
        for process in every:
            signal_tree(process, signal.SIGTERM)
        for process in every:
            terminate_tree(process)


def process_tree(process: subprocess.Popen) -> list[psutil.Process]:
    """A process and all that it has started, those in sessions of their own too."""
    if process.returncode is not None:
        return []  # its number may be that of another by now
    found = dict[int, psutil.Process]()
    with contextlib.suppress(psutil.NoSuchProcess):
        own = psutil.Process(process.pid)
        found = {one.pid: one for one in (own, *own.children(recursive=True))}
    for one in psutil.process_iter():  # whose parent has ended, in its session
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(one.pid) == process.pid:
                found.setdefault(one.pid, one)
    return list(found.values())


def signal_tree(process: subprocess.Popen, number: int) -> list[psutil.Process]:
    """Sends a signal to a process and all that it has started; returns them."""
    told = process_tree(process)
    for one in told:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(number)
    return told


def terminate_tree(process: subprocess.Popen, number: int = signal.SIGTERM):
    """Ends a process and those that it has started, after ten seconds by force."""
    _, alive = psutil.wait_procs(signal_tree(process, number), timeout=10.0)
    for one in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(alive, timeout=10.0)
    process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((HOST, 0)) as server:
        return server.getsockname()[1]


def deploy(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    data: Sequence[str] = (),
    **times: float,
) -> Mapping:
    """Runs a federation as processes of this machine; returns the server's summary.

    Args:
      config: of the federation.
      workdir: the server's folder; clients have theirs in `nodes/` of it.
      data: of each client with data of its own, such as folder:PATH.
      times: of `server_app`.

    Raises:
      UserError: the run has ended before its last round.
    """
    with Deployment(config, workdir, data, **times) as there:
        there.start_superlink()
        for client in range(config.data.clients):
            there.start_node(client)
        submitted = there.run()
        try:
            submitted.wait()
        finally:
            terminate_tree(submitted)
        summary = RunFolder.at(there.path).summary
        if summary is None:
            raise UserError(f"the run has not finished; see {there.log('run')}.")
        return summary
