"""Choice of the client store of a run."""

import contextlib
from pathlib import Path

import numpy as np

from jaxproto.experiment import memory
from jaxproto.experiment.build import Experiment
from jaxproto.training.client_store import ClientStore
from jaxproto.training.data_placement import PlacedTables
from jaxproto.training.host_rows import Space, scratch_files
from jaxproto.training.hosted_store import HostedStore
from jaxproto.training.mesh_store import MeshStore
from jaxproto.training.programs import Programs

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
    space: Space = contextlib.nullcontext(np.zeros)
    if exp.store == "disk":
        every = exp.cohorts, exp.method, exp.local, exp.dataset
        space = scratch_files(path / FOLDER, memory.client_state_bytes(*every))
    return HostedStore(exp, programs, seed, space)
