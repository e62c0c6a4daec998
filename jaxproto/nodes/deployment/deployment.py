"""Deployment on this machine: a SuperLink, and a SuperNode for every client.

All processes listen on the loopback address only. SuperLink and SuperNodes use TLS with
certificates made for the run. The SuperLink admits SuperNodes whose key is registered.
The folder holds the app for `flwr run` in `app/`, and the files of Flower in `flower/`.
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

from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.io.owner_only import owner_only_folder
from jaxproto.nodes.deployment import certificates
from jaxproto.nodes.deployment.persistent_client import HOST
from jaxproto.nodes.flower.private_data_node import parse_node_data
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.workdir import check_config

PROJECT = """[project]
name = "federation"
version = "1.0.0"

[tool.flwr.app]
publisher = "jaxproto"

[tool.flwr.app.components]
serverapp = "federation:server"
clientapp = "node:client"
"""
SERVER = '''"""The ServerApp of one federation, written by jaxproto.nodes.flower."""

from jaxproto.nodes.flower import parse_config, server_app

CONFIG = parse_config({config!r})
TIMES = {times!r}
server = server_app(CONFIG, {workdir!r}, same_code={same_code!r}, **TIMES)
'''
CLIENT = '''"""The ClientApp of one federation, written by jaxproto.nodes.flower."""

from jaxproto.nodes.deployment.persistent_client import client_app

CONFIG = {config!r}
client = client_app(CONFIG, {workdir!r})
'''
LINK = """[superlink]
default = "here"

[superlink.here]
address = "{address}"
root-certificates = "{authority}"
"""
START_TIMEOUT = 60.0  # seconds until the SuperLink listens


def write_app(
    config: ml_collections.ConfigDict,
    workdir: Path,
    same_code: bool = False,
    **times: float,
) -> Path:
    """Writes the app for `flwr run`; returns its folder.

    Args:
      same_code, times: As in `jaxproto.nodes.flower.simulate`.
    """
    folder = workdir / "app"
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "pyproject.toml", PROJECT.encode())
    values = {"config": config.to_json(), "workdir": str(workdir)}
    server = SERVER.format(**values, same_code=same_code, times=times)
    atomic.write(folder / "federation.py", server.encode())
    atomic.write(folder / "node.py", CLIENT.format(**values).encode())
    return folder


class Deployment:
    """Processes of a federation on this machine."""

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        workdir: str | Path,
        data: Sequence[str] = (),
        same_code: bool = False,
        **times: float,
    ):
        """Writes the app and certificates; starts no process."""
        self.path = Path(workdir).resolve()
        # before this run's files replace another's
        check_config(self.path, config, same_code)
        self.home = self.path / "flower"
        self.sources = parse_node_data(config, data)
        bin = Path(sys.executable).parent
        search_path = os.pathsep.join([str(bin), os.environ.get("PATH", "")])
        if shutil.which("flower-superlink", path=search_path) is None:
            raise UserError(
                "Flower is not installed: python -m pip install 'jaxproto[flower]'."
            )
        self.app = write_app(config, self.path, same_code, **times)
        owner_only_folder(self.home)
        atomic.remove(self.home / "certificates")  # all nodes get new ones
        self.certificates = certificates.make(self.home / "certificates")
        self.port = free_port()
        self.database = self.home / "superlink.db"  # of registered nodes
        self.database.unlink(missing_ok=True)  # all nodes of this deployment are new
        self.nodes: dict[int, subprocess.Popen] = {}  # SuperNodes by client
        self.superlink: subprocess.Popen | None = None
        self.environment = {
            **os.environ,
            "PATH": search_path,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        values = {"address": self.address, "authority": self.certificates.authority}
        atomic.write(self.home / "config.toml", LINK.format(**values).encode())

    @property
    def address(self) -> str:
        """Returns the address of the SuperLink."""
        return f"{HOST}:{self.port}"

    def start_superlink(self):
        """Starts the SuperLink and waits until it listens."""
        _, certificate, key = map(str, self.certificates)
        self.superlink = self._start(
            "superlink",
            *("flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--ssl-ca-certfile", str(self.certificates.authority)),
            *("--ssl-certfile", certificate, "--ssl-keyfile", key),
            *("--database", str(self.database)),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        )
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.superlink.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((HOST, self.port), 1.0),
            ):
                return
            time.sleep(0.2)
        raise UserError(f"the SuperLink does not listen; see {self.log('superlink')}.")

    def add_mod(self, name: str, text: str):
        """Adds a mod of Flower around every message.

        Args:
          name: Name of the module and of its function.
          text: Source of the module.
        """
        atomic.write(self.app / f"{name}.py", text.encode())
        file = self.app / "node.py"
        line = f"client = client_app(CONFIG, {str(self.path)!r}, mods=[{name}])\n"
        source = f"from {name} import {name}\n{file.read_text()}{line}"
        atomic.write(file, source.encode())

    def start_node(self, client: int, **options: int):
        """Starts the SuperNode of a client; `options` extend its node configuration."""
        key = self._register(client)
        folder = self.path / "nodes" / str(client)
        node_config = f"client={client} folder={json.dumps(str(folder))}"
        if source := self.sources[client]:
            node_config += f" data={json.dumps(source)}"
        node_config += "".join(f" {name}={value}" for name, value in options.items())
        self.nodes[client] = self._start(
            f"node-{client}",
            *("flower-supernode", "--superlink", self.address),
            *("--node-config", node_config),
            *("--root-certificates", str(self.certificates.authority)),
            *("--auth-supernode-private-key", str(key)),
            *("--host", HOST, "--port", str(free_port())),
        )

    def _register(self, client: int) -> Path:
        """Makes the key of a node and registers it with the SuperLink.

        The key is new at each start, because the SuperLink admits the key of a killed
        node only after a minute.
        """
        key = self.home / f"node-{client}.key"
        key.unlink(missing_ok=True)
        public, name = str(certificates.make_node_key(key)), f"register-{client}"
        if self._start(name, "flwr", "supernode", "register", public, "here").wait():
            raise UserError(f"a node's key is not registered; see {self.log(name)}.")
        return key

    def run(self) -> subprocess.Popen:
        """Submits the app; the process ends with the run."""
        return self._start("run", "flwr", "run", str(self.app), "here", "--stream")

    def log(self, name: str) -> Path:
        """Returns the log file of a process."""
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
        processes = [*self.nodes.values(), *filter(None, [self.superlink])]
        for process in processes:
            signal_tree(process, signal.SIGTERM)
        for process in processes:
            terminate_tree(process)


def process_tree(process: subprocess.Popen) -> list[psutil.Process]:
    """Returns a process with all descendants, also those in other sessions."""
    if process.returncode is not None:
        return []  # its id may be reused
    processes = dict[int, psutil.Process]()
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        processes = {p.pid: p for p in (root, *root.children(recursive=True))}
    for p in psutil.process_iter():  # orphans in the session of the process
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(p.pid) == process.pid:
                processes.setdefault(p.pid, p)
    return list(processes.values())


def signal_tree(process: subprocess.Popen, number: int) -> list[psutil.Process]:
    """Sends a signal to a process and its descendants; returns all of them."""
    processes = process_tree(process)
    for p in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            p.send_signal(number)
    return processes


def terminate_tree(process: subprocess.Popen, number: int = signal.SIGTERM):
    """Ends a process and its descendants; kills them after ten seconds."""
    _, alive = psutil.wait_procs(signal_tree(process, number), timeout=10.0)
    for p in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            p.kill()
    psutil.wait_procs(alive, timeout=10.0)
    process.wait()


def free_port() -> int:
    """Returns a free port."""
    with socket.create_server((HOST, 0)) as server:
        return server.getsockname()[1]


def deploy(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    data: Sequence[str] = (),
    same_code: bool = False,
    **times: float,
) -> Mapping:
    """Runs a federation as processes of this machine; returns the server summary.

    Args:
      workdir, data, same_code, times: As in `jaxproto.nodes.flower.simulate`.

    Raises:
      UserError: the run ended before its last round.
    """
    with Deployment(config, workdir, data, same_code, **times) as deployment:
        deployment.start_superlink()
        for client in range(config.data.clients):
            deployment.start_node(client)
        submitted = deployment.run()
        try:
            submitted.wait()
        finally:
            terminate_tree(submitted)
        run = RunFolder.at(deployment.path)
        if run.summary is None or not run.status(config.rounds).ended:
            raise UserError(f"the run has not finished; see {deployment.log('run')}.")
        return run.summary
