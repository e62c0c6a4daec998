"""Clients between rounds where the device does not hold them: in memory or in files.

Only the rows of a round are on the device. While it computes, a thread reads those of
the next round and writes those of the last. A client that has never taken part has no
row: it is made from the run's key when it is asked for. Files are no more than room to
work in; what a run goes on from are the rows in its checkpoints.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.gather import ParticipantRows
from jaxproto.io import atomic
from jaxproto.participation import Participation
from jaxproto.storage import checkpoint, row_deltas
from jaxproto.storage.row_deltas import RowDelta
from jaxproto.training.client_store import (
    Calls,
    Chunk,
    Clients,
    ClientStore,
    Trained,
    Upcoming,
    check_written,
)
from jaxproto.training.host_rows import (
    ClientRows,
    Leaves,
    Places,
    merge_lanes,
    pad_rows,
    refresh_prefetched,
)
from jaxproto.training.programs import (
    Programs,
    State,
    num_rows,
    replicate,
)
from jaxproto.types import Client, Shard

FOLDER = "clients.scratch"  # of the files, in the work directory


class HostedStore(ClientStore):
    """Clients of a run in host memory or in files."""

    def __init__(self, exp: Experiment, start, key, shapes, folder: Path | None):
        """Reserves room for every client.

        Args:
          start: compiled, per cohort: key, ids, counts -> clients as they begin.
          key: of initialisation.
          shapes: of one client, per cohort.
          folder: of the files; None is host memory.

        Raises:
          UserError: there is not enough room on the disk.
        """
        self.exp, self._start, self._key = exp, start, key
        self.folder, self._files = folder, 0
        if folder is not None:
            atomic.remove(folder)
            with atomic.write_errors(folder, 0):
                folder.mkdir(parents=True)
        self.cohorts = [
            ClientRows(shape, c.ids, exp.counts.train[list(c.ids)], self._allocate)
            for c, shape in zip(exp.cohorts, shapes, strict=True)
        ]
        self._pool = ThreadPoolExecutor(1)
        self._now: Places = []
        self._next: tuple[Places, Future] | None = None
        self._writes: list[Future] = []
        self._since: int | None = None  # round of the last checkpoint

    def _allocate(self, shape, dtype) -> np.ndarray:
        if self.folder is None or 0 in shape:
            return np.zeros(shape, dtype)
        self._files += 1
        path = self.folder / f"{self._files}.bin"
        atomic.reserve(path, int(np.prod(shape)) * dtype.itemsize)
        return np.memmap(path, dtype, "r+", shape=tuple(shape))

    # Rounds

    def gather(self, who: Participation, clients: Clients, upcoming: Upcoming) -> Calls:
        """Returns the participants of a round, and begins to read those of the next."""
        del clients
        places, ahead = self._places(who), self._next
        self._now, self._next = places, None
        if ahead is not None and all(map(np.array_equal, ahead[0], places)):
            rows = ahead[1].result()
        else:
            self.wait()
            rows = self._read_all(places)
        if upcoming is not None:
            after = self._places(upcoming())
            self._next = after, self._pool.submit(self._read_all, after)
        return [
            [
                ParticipantRows(
                    None, self._on_devices(i, at, own), self._tables(i, shard, at)
                )
                for at, own in self._in_lanes(i, places[i], rows[i])
            ]
            for i, shard in enumerate(self.exp.train)
        ]

    def scatter(self, clients: Clients, rows: Calls, trained: Trained) -> Clients:
        """Takes the participants back, as they are after the round."""
        new = [self._from_devices(i, lanes) for i, lanes in enumerate(trained)]
        if self._next is not None:
            after, reading = self._next
            for now, own, then, old in zip(
                self._now, new, after, reading.result(), strict=True
            ):
                refresh_prefetched(now, own, then, old)
        self.wait()
        self._writes = [self._pool.submit(self._write, self._now, new)]
        return clients

    def evaluated(self, clients: Clients) -> Iterator[list[Chunk]]:
        """Yields as many clients at a time as a round has."""
        for i, (cohort, test) in enumerate(
            zip(self.exp.cohorts, self.exp.test, strict=True)
        ):
            asked = cohort.evaluated
            step = self._room(i) * cohort.num_lanes
            order = mesh.interleaved_order(self._room(i), self.exp.layout.num_devices)
            for first in range(0, len(asked), step):
                number = np.arange(len(asked))[first : first + step]
                self.wait()
                rows = self._read(i, asked[number])
                yield [
                    Chunk(
                        cohort=i,
                        place=pad_rows(at, self._room(i), -1)[order],
                        clients=self._on_devices(i, asked[at], own),
                        tests=self._tables(i, test, at),
                    )
                    for at, own in self._in_lanes(i, number, rows)
                ]

    def rows(self, cohort: int, place: np.ndarray, clients: Client) -> Client:
        """Returns rows of a cohort."""
        self.wait()
        held = self.cohorts[cohort]
        client = held.client(self._read(cohort, place))
        return client.replace(id=held.ids[place])

    def of_tests(self, exp: Experiment, programs: Programs) -> "HostedStore":
        """Returns the store of the same clients for another test part."""
        del programs
        other = copy.copy(self)
        other.exp = exp
        return other

    def _places(self, who: Participation) -> Places:
        """Returns the places of the participants in each cohort."""
        trains = np.asarray(who.trains)
        return [np.flatnonzero(trains[held.ids]) for held in self.cohorts]

    def _room(self, i: int) -> int:
        """Returns the rows of a call."""
        return num_rows(self.exp, self.exp.cohorts[i])

    def _in_lanes(self, i: int, at: np.ndarray, rows: Leaves):
        """Yields the places and rows of each call."""
        lanes = self.exp.cohorts[i].num_lanes
        for lane in range(lanes):
            yield at[lane::lanes], [a[lane::lanes] for a in rows]

    def _from_devices(self, i: int, lanes: Sequence[Client]) -> Leaves:
        """Returns the rows of all calls in the order of their places."""
        count, number = len(self._now[i]), self.exp.layout.num_devices
        parts = mesh.to_host(list(lanes))
        parts = [mesh.deinterleave(part, self._room(i), number) for part in parts]
        leaves = zip(*map(jax.tree.leaves, parts), strict=True)
        return [merge_lanes(lanes, count) for lanes in leaves]

    def _read_all(self, places: Places) -> list[Leaves]:
        return [self._read(i, at) for i, at in enumerate(places)]

    def _read(self, i: int, at: np.ndarray) -> Leaves:
        """Returns rows of a cohort; those that nothing was written to are made."""
        held, room = self.cohorts[i], self._room(i)
        rows, new = held.get(at), np.flatnonzero(~held.written[at])
        for first in range(0, len(new), room):
            which = new[first : first + room]
            for a, made in zip(rows, self._made(i, at[which]), strict=True):
                a[which] = made[: len(which)]
        return rows

    def _made(self, i: int, at: np.ndarray) -> Leaves:
        """Returns clients before their first round."""
        held, room = self.cohorts[i], self._room(i)
        ids, counts = pad_rows(held.ids[at], room), pad_rows(held.counts[at], room)
        made = self._start[i](self._key, ids, counts.astype(np.float32))
        return jax.tree.leaves(jax.device_get(made))

    def _on_devices(self, i: int, at: np.ndarray, rows: Leaves) -> Client:
        """Returns rows as a call gets them; unused ones have an id of nobody."""
        held, room = self.cohorts[i], self._room(i)
        client = held.client([pad_rows(a, room) for a in rows])
        ids = pad_rows(held.ids[at], room, len(self.exp.counts.train))
        return self.exp.layout.shard_rows(client.replace(id=ids))

    def _tables(self, i: int, shard: Shard, at: np.ndarray) -> Shard:
        """Returns index tables as a call gets them."""
        room = self._room(i)
        tables = jax.tree.map(lambda a: pad_rows(np.asarray(a)[at], room), shard)
        return self.exp.layout.shard_rows(tables)

    def _write(self, places, rows):
        for held, at, new in zip(self.cohorts, places, rows, strict=True):
            held.set(at, new)

    def wait(self):
        """Returns when all rows are where they belong."""
        for write in self._writes:
            write.result()
        self._writes = []

    # Checkpoints

    def gather_state(self, state: State) -> State:
        """Returns the state on the host."""
        server, clients = mesh.to_host((state.server, state.clients))
        return state._replace(server=server, clients=clients)

    def restore(self, state: State) -> State:
        """Returns a state that was saved, its server on the devices."""
        return state._replace(server=replicate(self.exp, state.server))

    def save_checkpoint(self, directory: Path, r: int, state: State, settings: Mapping):
        """Writes the checkpoint of a round, and the rows beside it."""
        self.wait()
        live, changed = (
            sum(int(getattr(held, which).sum()) for held in self.cohorts)
            for which in ("written", "dirty")
        )
        rows = RowDelta(self._since, live, changed, self._arrays)
        checkpoint.save(directory, r, self.gather_state(state), settings, rows)
        self._saved(r)

    def _arrays(self, whole: bool) -> dict[str, np.ndarray]:
        """Returns rows by cohort and leaf: all, or those that have changed."""
        every = ((i, held.arrays(whole)) for i, held in enumerate(self.cohorts))
        return {f"{i}{name}": a for i, own in every for name, a in own.items()}

    def _saved(self, round: int):
        """Notes that all rows are in the checkpoint of a round."""
        self._since = round
        for held in self.cohorts:
            held.dirty[:] = False

    def load(self, found: Path):
        """Takes the rows of a checkpoint.

        Raises:
          UserError: the run that wrote it had its clients elsewhere.
        """
        check_written(found, beside=True)
        for arrays in row_deltas.read(found):
            for i, held in enumerate(self.cohorts):
                mine = (k for k in arrays if k.startswith(f"{i}."))
                held.load({k.removeprefix(str(i)): arrays[k] for k in mine})
        self._saved(int(found.name))

    def close(self):
        """Removes the files: the run has ended, or was interrupted."""
        self._pool.shutdown(wait=True)
        if self.folder is not None:
            for held in self.cohorts:
                held.rows = []
            atomic.remove(self.folder)
