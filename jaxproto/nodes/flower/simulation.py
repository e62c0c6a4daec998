"""Simulation of a federation by Flower, with a node for every client."""

import os
from collections.abc import Sequence
from pathlib import Path

import ml_collections

from jaxproto.errors import UserError
from jaxproto.features.privacy.guarantee import rehearsal
from jaxproto.nodes.flower.apps import client_app, server_app
from jaxproto.nodes.flower.private_data_node import parse_node_data
from jaxproto.storage.run_folder import RunFolder

BACKEND = {  # one core per actor; a new local Ray instance beside running clusters
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {"address": "local", "log_to_driver": False},
}
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def simulate(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    data: Sequence[str] = (),
    same_code: bool = False,
    **times: float,
) -> dict:
    """Runs a federation in the simulation of Flower; returns the summary of the server.

    Noise and sampling follow from the seed.

    Args:
      workdir: Folder of the server; clients have theirs in its `nodes/`.
      data: Data source of each client, such as folder:PATH; () for none.
      same_code: Whether a begun run goes on although code of yours has changed.
      times: Arguments `wait` and `patience` of `server_app`, in seconds.

    Raises:
      UserError: the run ended before its last round.
    """
    os.environ.update(QUIET)
    from flwr.simulation import run_simulation

    path, config = Path(workdir).resolve(), rehearsal(config)
    run_simulation(
        server_app(config, path, same_code=same_code, **times),
        client_app(config, path, data=parse_node_data(config, data)),
        num_supernodes=config.data.clients,
        backend_config=BACKEND,
    )
    summary = RunFolder.at(path).summary
    if summary is None:
        raise UserError(f"the run in {path} has not finished; the reason is above.")
    return summary
