"""Runs read from their folders, with the last usable checkpoint.

Reading writes nothing into the folder and takes no lock, so it does not disturb a run
that still trains. Programs are compiled when they are first called.
"""

import re
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
import numpy as np

from jaxproto import config as config_
from jaxproto.core.types import Client
from jaxproto.data import registry
from jaxproto.data.partitions.partition import (
    FederationData,
)
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import NODES
from jaxproto.methods import METHODS
from jaxproto.nodes import data_schema, private_data
from jaxproto.storage import checkpoint, manifest, provenance, row_deltas, workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary import run_summary
from jaxproto.training import programs, xla_cache
from jaxproto.training.client_store import ClientStore
from jaxproto.training.programs import State
from jaxproto.training.stores import open_store

TRIES = 5  # to read a checkpoint while the run replaces old ones by new ones


class RestoredRun(NamedTuple):
    """A run and its state after its last usable checkpoint."""

    path: Path
    config: ml_collections.ConfigDict
    exp: Experiment
    round: int  # number of rounds before the state
    state: State
    store: ClientStore
    notes: tuple[str, ...]  # a sentence per checkpoint that was passed over

    def clients(self, i: int, at: np.ndarray) -> Client:
        """Returns the clients [n, ...] in rows `at` [n] of cohort `i`."""
        check_clients(self)
        return self.store.rows(i, at, self.state.clients[i])


def load(path: str | Path, data_dir: str = "") -> RestoredRun:
    """Builds the experiment again and reads the newest usable checkpoint.

    The state has all clients, so they must fit into memory.

    Args:
      path: Folder of a run, finished or not.
      data_dir: Folder of the data set; "" is where the run found it.

    Raises:
      UserError: there is no run or no checkpoint, its clients are on their nodes, or
        the data are not those of the run.
    """
    run = RunFolder.read(path)
    config = configuration(run, data_dir)
    restored = read_latest(run, config, experiment(run, config))
    places = [np.arange(len(cohort.ids)) for cohort in restored.exp.cohorts]
    clients = tuple(restored.clients(i, at) for i, at in enumerate(places))
    exp, state = restored.exp._replace(store="device"), restored.state
    store = ClientStore(exp, programs.jit_programs(exp))
    return restored._replace(
        exp=exp, state=state._replace(clients=clients), store=store
    )


def configuration(run: RunFolder, data_dir: str = "") -> ml_collections.ConfigDict:
    """Returns the configuration of a run, with the defaults of newer fields.

    Raises:
      UserError: The method is not registered, or a value is no longer valid.
    """
    name, files = run.config["method.name"], run.config.get("imports", "")
    flags = " ".join(f"--import={file}" for file in files.split(","))
    first = f"import that file first, with {flags} on the command line."
    if name not in METHODS and files:
        raise UserError(f"{run.path} has the method {name!r} of {files}: {first}")
    choose_from("method", name, METHODS)
    config = config_.default_config(name)
    config_.check_keys(config, run.config)
    config.update_from_flattened_dict(run.config)
    kind, _, rest = config.data.name.partition(":")
    if kind == "npz" and not data_dir and (run.folder / rest).is_file():
        data_dir = str(run.folder)  # data of `jaxproto.run(data=...)`, even if moved
    config.data.data_dir = data_dir or config.data.data_dir
    try:
        config_.check(config)
    except UserError as e:  # such as a metric that is not registered
        raise UserError(f"{e} If it is of {files}: {first}" if files else str(e)) from e
    return config


def experiment(run: RunFolder, config: ml_collections.ConfigDict) -> Experiment:
    """Returns the experiment of a run, with the client store of its checkpoints.

    Clients that the run kept in files are in the memory of the host, if they have taken
    part.

    Raises:
      UserError: The data set is missing, or is not that of the run.
    """
    for line in provenance.loaded_changes(run, config):
        xla_cache.warn_once(line)
    config = config.copy_and_resolve_references()
    store = None if run.on_nodes else store_of_checkpoint(run.folder)
    config.clients.store = store or config.clients.store
    known: FederationData | None = None
    if config.data.name == registry.NODES:  # what the server knows of the nodes' data
        schema = data_schema.read(run.folder / data_schema.FILE)
        known = private_data.server_view(schema, config.data.max_len)
    tokens = workdir.tokens(run.folder)
    exp = build.experiment(config, jax.default_backend(), tokens, data=known)
    exp = exp._replace(store=NODES) if run.on_nodes else exp
    run_summary.check_same(exp, run.folder)
    return exp


def store_of_checkpoint(path: Path) -> str | None:
    """Returns the `clients.store` that fits the checkpoints of a run, if any."""
    for r in reversed(checkpoint.rounds(path / "checkpoints")):
        folder = path / "checkpoints" / str(r)
        if (folder / row_deltas.FOLDER).is_dir():
            return "host"
        try:
            leaves = manifest.contents(folder)["leaves"]
        except manifest.Unusable:
            continue
        has_nets = any(re.match(r"\.clients\[\d+\]\.params", e["path"]) for e in leaves)
        return "device" if has_nets else "none"
    return None


def read_latest(
    run: RunFolder, config: ml_collections.ConfigDict, exp: Experiment
) -> RestoredRun:
    """Reads the newest usable checkpoint.

    Raises:
      UserError: There is none.
    """
    directory, tries = run.folder / "checkpoints", TRIES
    while True:
        rounds, tries = checkpoint.rounds(directory), tries - 1
        try:
            return _newest(run, config, exp)
        except Exception:  # of any type: files may be deleted while they are read
            if tries == 0 or checkpoint.rounds(directory) == rounds:
                raise


def _newest(
    run: RunFolder, config: ml_collections.ConfigDict, exp: Experiment
) -> RestoredRun:
    directory, like = run.folder / "checkpoints", programs.shapes(exp, config.seed)
    latest = checkpoint.restore_latest(directory, like, workdir.settings(config))
    if latest is None:
        raise UserError(
            f"{run.path} holds no checkpoint, which networks and prototypes are read "
            "from (records in results/ have none). Run its configuration, or wait "
            "until the run has saved a round."
        )
    xla_cache.enable_xla_cache()
    store = open_store(exp, programs.jit_programs(exp), config.seed, run.folder)
    store.load(directory / str(latest.round))
    notes = tuple(latest.notes)
    return RestoredRun(run.path, config, exp, latest.round, latest.state, store, notes)


def check_clients(run: RestoredRun):
    """Raises UserError if the state of clients is not in the folder of the run."""
    if run.exp.store == NODES and any(not c.stateless for c in run.exp.cohorts):
        raise UserError(
            f"the clients of {run.path} keep their networks on their nodes, and a "
            "checkpoint of the server has none of them: records, partition, server and "
            "prototypes can be read, clients and new evaluations cannot."
        )
