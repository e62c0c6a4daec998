"""A run read back from its folder: its experiment and its last checkpoint.

What is drawn of learnt prototypes and networks needs both; accuracies and bytes need
`metrics.jsonl` alone.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import config as config_
from jaxproto import federation, kernels, wire
from jaxproto.compare import runs
from jaxproto.config import build
from jaxproto.config.build import Experiment
from jaxproto.errors import UserError, pick
from jaxproto.methods import METHODS
from jaxproto.report import summary
from jaxproto.storage import checkpoint
from jaxproto.storage import workdir as folder
from jaxproto.training import programs
from jaxproto.training.programs import State
from jaxproto.types import Protos


class Finished(NamedTuple):
    """A run and its state after its last checkpoint."""

    path: Path
    config: ml_collections.ConfigDict
    exp: Experiment
    round: int  # rounds behind the state
    state: State


def load(workdir: str | Path, data_dir: str = "") -> Finished:
    """Builds the experiment again and reads the newest checkpoint.

    Args:
      workdir: of a run, finished or not.
      data_dir: where the data set is now; "" is where the run found it.

    Raises:
      UserError: no run or no checkpoint is there, or the data are not those of the run.
    """
    path = Path(workdir)
    config = configuration(path, data_dir)
    exp = build.experiment(config, jax.default_backend(), folder.tokens(path))
    summary.check_same(exp, path)
    found = checkpoint.latest(path / "checkpoints", programs.shapes(exp, config.seed))
    if found is None:
        raise UserError(
            f"{path} holds no checkpoint, which this picture needs (records in "
            "results/ have none). Run its configuration again."
        )
    return Finished(path, config, exp, found.round, found.state)


def configuration(path: Path, data_dir: str = "") -> ml_collections.ConfigDict:
    """The configuration of a run; fields that did not exist then at their default.

    Raises:
      UserError: the folder is not that of a run.
    """
    flat = runs.load(path).config
    made = config_.default()
    name = pick("method", flat["method.name"], METHODS)
    made.method = ml_collections.ConfigDict(config_.method_fields(name))
    made.update_from_flattened_dict(flat)
    made.data.data_dir = data_dir or made.data.data_dir
    config_.check(made)
    return made


def before_alignment(run: Finished) -> Protos:
    """The global prototypes that the last round's alignment started from.

    They are not kept: the method without alignment makes them again of the local
    prototypes of the clients that reported.

    Raises:
      UserError: the run has no alignment.
    """
    config, exp, server = run.config, run.exp, run.state.server
    if config.method.get("alignment", "none") == "none":
        raise UserError(
            f"{run.path} has no alignment to trace: its method is "
            f"{config.method.name!r}. Give runs of protonorm."
        )
    other = ml_collections.ConfigDict(config.method.to_dict() | {"alignment": "none"})
    method = build.build_method(other, exp.spec, 0, config)
    bare = server._replace(transform=(server.transform[0], ()))
    context = programs.round_context(config.seed, run.round - 1)
    reports_K = programs.functions(exp).participate(exp.floats, context, server).reports
    up = uploads(run, reports_K)
    return method.update(exp.cohorts[0].net, bare, up, context.key).protos


def uploads(run: Finished, reports_K) -> Protos:
    """Local prototypes [K, C, D] as the server got them, from who reported."""
    parts = [(c.memory, c.count) for c in run.state.clients]
    own, count_KC = federation.by_id(run.exp.cohorts, parts)
    held_KC = count_KC * (own.count > 0) * reports_K[:, None]
    up = Protos(own.mean, held_KC, disclosed=True)
    return jax.vmap(lambda p: wire.unpack(wire.pack(p, run.exp.formats.up)))(up)


def trace(protos: Protos) -> dict[str, np.ndarray]:
    """`kernels.align_trace` of global prototypes until its last iteration."""
    here_C = jnp.asarray(protos.count > 0)
    _, steps, seen = jax.jit(kernels.align_trace)(jnp.asarray(protos.mean), here_C)
    columns = seen._asdict().items()
    return {name: np.asarray(a)[: int(steps) + 1] for name, a in columns}
