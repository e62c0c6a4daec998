"""Choice of the client store of a run."""

import contextlib
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jaxproto import federation
from jaxproto.experiment import memory
from jaxproto.experiment.build import Experiment
from jaxproto.training.client_store import ClientStore
from jaxproto.training.data_placement import PlacedTables
from jaxproto.training.host_rows import Space, scratch_files
from jaxproto.training.hosted_store import HostedStore
from jaxproto.training.mesh_store import MeshStore
from jaxproto.training.programs import Programs, client_ids_and_counts, keys

FOLDER = "clients.scratch"  # scratch files in the work directory


def open_store(
    exp: Experiment,
    programs: Programs,
    seed: int,
    path: Path,
    tables: PlacedTables | None = None,
    home: Path | None = None,
) -> ClientStore:
    """Returns the client store of a run; `programs` have its floats.

    Args:
      tables: Index tables on several devices.
      home: The work directory `path`, if several processes share it.

    Raises:
      UserError: The disk has not enough free space.
    """
    if exp.store not in ("host", "disk"):
        if tables is None:
            return ClientStore(exp, programs)
        return MeshStore(exp, programs, tables, home)
    key, shapes = keys(seed)[0], []
    for cohort in exp.cohorts:
        init = partial(federation.init_cohort, exp.method, exp.local, cohort)
        id_K, count_KC = client_ids_and_counts(exp, cohort)
        rows = jax.eval_shape(init, key, count_KC[:1], id_K[:1])
        shapes.append(jax.tree.map(lambda a: a.update(shape=a.shape[1:]), rows))
    by_cohort = zip(exp.cohorts, shapes, strict=True)
    size = sum(len(c.ids) * memory.tree_bytes(shape) for c, shape in by_cohort)
    spaces: dict[str, Space] = {
        "host": contextlib.nullcontext(np.zeros),
        "disk": scratch_files(path / FOLDER, size),
    }
    return HostedStore(exp, programs.start_clients, key, shapes, spaces[exp.store])
