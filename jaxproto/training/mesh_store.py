"""Client store in arrays that are distributed over several devices.

The programs of `sharded_programs.py` move participants to the devices that train them,
and back. A checkpoint has clients in the order of one device.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jaxproto.devices import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.storage import checkpoint, process_shards
from jaxproto.training import processes
from jaxproto.training.client_store import ClientStore
from jaxproto.training.data_placement import PlacedTables
from jaxproto.training.programs import Programs, State


class MeshStore(ClientStore):
    """Clients in the arrays of the state, on several devices or processes."""

    def __init__(
        self,
        exp: Experiment,
        programs: Programs,
        tables: PlacedTables,
        home: Path | None = None,
    ):
        """Stores the index tables that are on the devices.

        Args:
          home: Work directory that all processes share, where each writes its clients.
        """
        super().__init__(exp, programs)
        self._layout, self._home = exp.layout, home
        self._shards, self._tests = tables.train, []
        for tests, placed in zip(exp.test, tables.test, strict=True):
            place = mesh.interleaved_order(len(tests.size), self._layout.num_devices)
            self._tests.append([(place, placed)])

    def gather_state(self, state: State) -> State:
        """Returns the state in the layout of one device, on the host."""
        server, stacked = mesh.to_host((state.server, state.clients))
        clients = tuple(
            mesh.deinterleave(rows, len(cohort.ids), self._layout.num_devices)
            for cohort, rows in zip(self._exp.cohorts, stacked, strict=True)
        )
        return state._replace(server=server, clients=clients)

    def save_checkpoint(self, directory: Path, r: int, state: State, settings: Mapping):
        """Writes the checkpoint of a round, or this process's pieces of it."""

        def write_pieces(unfinished):
            processes.barrier("the checkpoint is begun")
            index, rows = jax.process_index(), self._local_rows(state)
            process_shards.write(unfinished, index, rows)
            processes.barrier("all pieces are written")
            return {}

        if self._home is None:
            rest, write = self.gather_state(state), checkpoint.no_others
        else:
            rest, write = self._without_rows(state), write_pieces
            directory = self._home / directory.name
        if processes.is_primary():
            checkpoint.save(directory, r, rest, settings, write)
        else:
            write(checkpoint.unfinished(directory, r))

    def _without_rows(self, state: State) -> State:
        """Returns the state on the host, with shapes instead of clients."""

        def shape(a, count):
            return jax.ShapeDtypeStruct((count, *a.shape[1:]), a.dtype)

        clients = tuple(
            jax.tree.map(partial(shape, count=len(cohort.ids)), rows)
            for cohort, rows in zip(self._exp.cohorts, state.clients, strict=True)
        )
        return state._replace(server=mesh.to_host(state.server), clients=clients)

    def _local_rows(self, state: State) -> dict[str, np.ndarray]:
        """Returns the rows of this process in the format of `process_shards`."""
        arrays: dict[str, np.ndarray] = {}
        by_cohort = zip(self._exp.cohorts, state.clients, strict=True)
        for i, (cohort, clients) in enumerate(by_cohort):
            order = mesh.interleaved_order(len(cohort.ids), self._layout.num_devices)
            for path, a in jax.tree_util.tree_leaves_with_path(clients):
                pieces = sorted(
                    a.addressable_shards, key=lambda p: p.index[0].start or 0
                )
                place = np.concatenate([order[piece.index[0]] for piece in pieces])
                used = place >= 0
                rows = np.concatenate([np.asarray(piece.data) for piece in pieces])[
                    used
                ]
                if rows.size:
                    arrays[f".clients[{i}]{jax.tree_util.keystr(path)}"] = rows
                    arrays[process_shards.PLACES.format(i)] = place[used]
        return arrays

    def restore(self, state: State) -> State:
        """Returns a saved state on the devices."""
        unused_id, layout = len(self._exp.counts.train), self._layout
        clients = tuple(
            layout.shard_rows(rows).replace(id=layout.shard_ids(rows.id, unused_id))
            for rows in state.clients
        )
        return state._replace(server=layout.put(state.server), clients=clients)
