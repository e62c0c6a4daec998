"""Clients between rounds in arrays that are dealt to several devices.

The programs of `sharded.py` bring participants to where they train, and back. A
checkpoint has clients in the order of one device.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.mesh import DeviceLayout
from jaxproto.storage import checkpoint, process_shards
from jaxproto.training import multihost
from jaxproto.training.client_store import DeviceStore
from jaxproto.training.data_placement import PlacedData
from jaxproto.training.programs import Programs, State, replicate


class MeshStore(DeviceStore):
    """Clients in the arrays of the state, on several devices or processes."""

    def __init__(
        self,
        exp: Experiment,
        programs: Programs,
        placed: PlacedData,
        home: Path | None = None,
    ):
        """Takes tests and index tables where they are.

        Args:
          programs: with the floats of the run.
          placed: data on the devices.
          home: a work directory that several processes see: each writes its clients.
        """
        super().__init__(exp, programs)
        assert isinstance(exp.layout, DeviceLayout)
        self._layout, self._home = exp.layout, home
        self._shards, self._tests = placed.train, []
        for tests, own in zip(exp.test, placed.test, strict=True):
            count = len(jax.tree.leaves(tests)[0])
            place = mesh.interleaved_order(count, self._layout.num_devices)
            self._tests.append([(np.where(place < count, place, -1), own)])

    def gather_state(self, state: State) -> State:
        """Returns the state as one device has it, on the host."""
        server, there = mesh.to_host((state.server, state.clients))
        clients = tuple(
            mesh.deinterleave(own, len(cohort.ids), self._layout.num_devices)
            for cohort, own in zip(self._exp.cohorts, there, strict=True)
        )
        return state._replace(server=server, clients=clients)

    def save_checkpoint(self, directory: Path, r: int, state: State, settings: Mapping):
        """Writes the checkpoint of a round, or the part that this process has."""
        if self._home is None:
            super().save_checkpoint(directory, r, state, settings)
            return
        directory = self._home / directory.name

        def write(unfinished):
            multihost.barrier("the checkpoint is begun")
            process_shards.write(
                unfinished, multihost.process_index(), self._own_rows(state)
            )
            multihost.barrier("all parts are written")

        rest = self._without_rows(state)
        if multihost.is_primary():
            checkpoint.save(directory, r, rest, settings, others=write)
        else:
            write(checkpoint.unfinished(directory, r))

    def _without_rows(self, state: State) -> State:
        """Returns the state on the host, with shapes of clients."""

        def shape(a, count):
            return jax.ShapeDtypeStruct((count, *a.shape[1:]), a.dtype)

        clients = tuple(
            jax.tree.map(partial(shape, count=len(cohort.ids)), own)
            for cohort, own in zip(self._exp.cohorts, state.clients, strict=True)
        )
        server = mesh.to_host(state.server)
        return state._replace(server=server, clients=clients)

    def _own_rows(self, state: State) -> dict[str, np.ndarray]:
        """Returns rows on the devices of this process, as `divided.py` has them."""
        found: dict[str, np.ndarray] = {}
        each = zip(self._exp.cohorts, state.clients, strict=True)
        for i, (cohort, own) in enumerate(each):
            place = mesh.interleaved_order(len(cohort.ids), self._layout.num_devices)
            for path, a in jax.tree_util.tree_leaves_with_path(own):
                parts = sorted(a.addressable_shards, key=_start)
                at = np.concatenate([place[part.index[0]] for part in parts])
                used = at < len(cohort.ids)
                rows = np.concatenate([np.asarray(part.data) for part in parts])[used]
                if rows.size:
                    found[f".clients[{i}]{jax.tree_util.keystr(path)}"] = rows
                    found[process_shards.PLACES.format(i)] = at[used]
        return found

    def restore(self, state: State) -> State:
        """Returns a state that was saved, on the devices."""
        nobody = len(self._exp.counts.train)
        clients = tuple(
            self._layout.shard_rows(own).replace(
                id=self._layout.shard_ids(own.id, nobody)
            )
            for own in state.clients
        )
        server = replicate(self._exp, state.server)
        return state._replace(server=server, clients=clients)


def _start(part) -> int:
    return part.index[0].start or 0
