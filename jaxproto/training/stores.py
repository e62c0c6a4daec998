"""Chooses the store of the clients of a run."""

from functools import partial
from pathlib import Path

import jax

from jaxproto import federation
from jaxproto.experiment.build import Experiment
from jaxproto.training.client_store import ClientStore, DeviceStore
from jaxproto.training.data_placement import PlacedData
from jaxproto.training.hosted_store import FOLDER, HostedStore
from jaxproto.training.mesh_store import MeshStore
from jaxproto.training.programs import Programs, client_ids_and_counts, keys


def open_store(
    exp: Experiment,
    programs: Programs,
    seed: int,
    path: Path,
    placed: PlacedData | None = None,
    home: Path | None = None,
) -> ClientStore:
    """Returns where the clients of a run are between rounds.

    Args:
      programs: with the floats of the run.
      path: work directory.
      placed: data on several devices.
      home: the work directory, if several processes see it.

    Raises:
      UserError: there is not enough room on the disk.
    """
    folders = {"host": None, "disk": path / FOLDER}
    if exp.store not in folders:
        if placed is None:
            return DeviceStore(exp, programs)
        return MeshStore(exp, programs, placed, home)
    key, shapes = keys(seed)[0], []
    for cohort in exp.cohorts:
        start = partial(federation.init_cohort, exp.method, exp.local, cohort)
        who = (a[:1] for a in client_ids_and_counts(exp, cohort)[::-1])
        one = jax.eval_shape(start, key, *who)
        shapes.append(jax.tree.map(lambda a: a.update(shape=a.shape[1:]), one))
    return HostedStore(exp, programs.start_clients, key, shapes, folders[exp.store])
