"""Client store in host memory or in files.

Only the rows of a round are on the device. While the device computes, a thread reads
the rows of the next round and writes those of the last. A client that has never taken
part has no row: it is initialised from the run's key when it is read. The files are
scratch space; a run resumes from the rows in its checkpoints.
"""

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jaxproto.core.types import Client, Shard
from jaxproto.devices import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.statelessness import client_state_shapes
from jaxproto.round.gather import ParticipantRows
from jaxproto.round.participation import Participation
from jaxproto.storage import checkpoint, row_deltas
from jaxproto.storage.row_deltas import RowDelta
from jaxproto.training.client_store import (
    Calls,
    Chunk,
    Clients,
    ClientStore,
    Trained,
    Upcoming,
)
from jaxproto.training.host_rows import ClientRows, Places, Space, pad_rows, put_rows
from jaxproto.training.programs import Programs, State, keys


class HostedStore(ClientStore):
    """Clients of a run in host memory or in files."""

    hosted = True

    def __init__(self, exp: Experiment, programs: Programs, seed: int, space: Space):
        """Reserves space for every client.

        Args:
          programs: Compiled programs with the floats of the run.
          space: Context of a function that allocates arrays.
        """
        self.exp, self._start, self._key = exp, programs.start_clients, keys(seed)[0]
        shapes = [
            client_state_shapes(exp.method, c.net, exp.local, exp.dataset)
            for c in exp.cohorts
        ]
        self._space = contextlib.ExitStack()
        allocate = self._space.enter_context(space)
        self.cohorts = [
            ClientRows(shape, c.ids, exp.counts.train[list(c.ids)], allocate)
            for c, shape in zip(exp.cohorts, shapes, strict=True)
        ]
        self._sizes = [  # rows of a call
            exp.rows_of_call(c.num_rows, exp.num_calls(c)) for c in exp.cohorts
        ]
        self._pool = ThreadPoolExecutor(1)
        self._now: Places = []
        self._next: tuple[Places, Future] | None = None
        self._writes: list[Future] = []
        self._saved = -1, -1  # rounds of the last checkpoint but one, and of the last

    # Rounds

    def gather(self, who: Participation, clients: Clients, upcoming: Upcoming) -> Calls:
        """Returns the participants of a round, and starts to read those of the next."""
        places, prefetched = self._places(who), self._next
        self._now, self._next = places, None
        if prefetched is not None and all(map(np.array_equal, prefetched[0], places)):
            rows = prefetched[1].result()
        else:
            self.wait()
            rows = self._read_all(places)
        if upcoming is not None:
            next_places = self._places(upcoming())
            self._next = next_places, self._pool.submit(self._read_all, next_places)

        def call(i, place, own):
            tables = self._tables(i, self.exp.train[i], place)
            return ParticipantRows(None, self._on_devices(i, place, own), tables)

        return [
            [call(i, *own) for own in self._in_calls(i, places[i], rows[i])]
            for i in range(len(self.cohorts))
        ]

    def scatter(self, clients: Clients, rows: Calls, trained: Trained) -> Clients:
        """Starts to write the trained rows of the participants."""
        new = [self._from_devices(i, calls) for i, calls in enumerate(trained)]
        if self._next is not None:
            next_places, reading = self._next  # before this round's training
            by_cohort = zip(self._now, next_places, reading.result(), new, strict=True)
            for now, later, prefetched, trained_rows in by_cohort:
                _, source, target = np.intersect1d(now, later, return_indices=True)
                both = jax.tree.map(lambda a, at=source: a[at], trained_rows)
                put_rows(prefetched, target, both)
        self.wait()
        self._writes = [self._pool.submit(self._write, self._now, new)]
        return clients

    def evaluated(self, clients: Clients) -> Iterator[list[Chunk]]:
        """Yields the clients in chunks of the size of a call."""
        for i, cohort in enumerate(self.exp.cohorts):
            evaluated, size = cohort.evaluated, self._sizes[i]
            step = size * self.exp.num_calls(cohort)
            order = mesh.interleaved_order(size, self.exp.layout.num_devices)
            for first in range(0, len(evaluated), step):
                places = np.arange(len(evaluated))[first : first + step]
                self.wait()
                rows = self._read(i, evaluated[places])
                yield [
                    (
                        i,
                        ParticipantRows(
                            place=pad_rows(place, size, -1)[order],
                            clients=self._on_devices(i, evaluated[place], own),
                            shards=self._tables(i, self.exp.test[i], place),
                        ),
                    )
                    for place, own in self._in_calls(i, places, rows)
                ]

    def rows(self, cohort: int, place: np.ndarray, clients: Client) -> Client:
        """Returns rows of a cohort."""
        self.wait()
        return self._read(cohort, place).replace(id=self.cohorts[cohort].ids[place])

    def of_tests(self, exp: Experiment, programs: Programs) -> "HostedStore":
        """Returns a store of these clients for another test split."""
        other = copy.copy(self)
        other.exp = exp
        return other

    def _places(self, who: Participation) -> Places:
        """Returns the places of the participants in each cohort."""
        trains = np.asarray(who.trains)
        return [np.flatnonzero(trains[stored.ids]) for stored in self.cohorts]

    def _in_calls(self, i: int, place: np.ndarray, rows: Client):
        """Yields the places and rows of each call."""
        calls = self.exp.num_calls(self.exp.cohorts[i])
        for first in range(calls):
            yield jax.tree.map(lambda a, first=first: a[first::calls], (place, rows))

    def _from_devices(self, i: int, calls: Sequence[Client]) -> Client:
        """Returns the rows of all calls in the order of their places."""
        rows = jax.tree.map(lambda *a: np.concatenate(a), *mesh.to_host(list(calls)))
        columns = len(calls) * self.exp.layout.num_devices  # one of the two is 1
        return mesh.deinterleave(rows, len(self._now[i]), columns)

    def _read_all(self, places: Places) -> list[Client]:
        return [self._read(i, place) for i, place in enumerate(places)]

    def _read(self, i: int, place: np.ndarray) -> Client:
        """Returns rows of a cohort; initialises those that were never written."""
        stored, size = self.cohorts[i], self._sizes[i]
        rows, unwritten = stored.get(place), np.flatnonzero(~stored.written[place])
        for first in range(0, len(unwritten), size):
            chunk = unwritten[first : first + size]
            put_rows(rows, chunk, self._new_clients(i, place[chunk]))
        return rows

    def _new_clients(self, i: int, place: np.ndarray) -> Client:
        """Returns clients before their first round."""
        stored, size = self.cohorts[i], self._sizes[i]
        ids = pad_rows(stored.ids[place], size)
        counts = pad_rows(stored.counts[place], size)
        clients = self._start[i](self._key, ids, counts.astype(np.float32))
        return jax.device_get(clients)

    def _on_devices(self, i: int, place: np.ndarray, rows: Client) -> Client:
        """Puts rows on the devices for a call; padding has an id that no client has."""
        size = self._sizes[i]
        client = jax.tree.map(lambda a: pad_rows(a, size), rows)
        ids = self.cohorts[i].ids[place]
        ids = pad_rows(ids, size, len(self.exp.counts.train))
        return self.exp.layout.shard_rows(client.replace(id=ids))

    def _tables(self, i: int, shard: Shard, place: np.ndarray) -> Shard:
        """Puts index tables on the devices for a call."""
        size = self._sizes[i]
        tables = jax.tree.map(lambda a: pad_rows(np.asarray(a)[place], size), shard)
        return self.exp.layout.shard_rows(tables)

    def _write(self, places, rows):
        for stored, place, new in zip(self.cohorts, places, rows, strict=True):
            stored.set(place, new)

    def wait(self):
        """Waits until all rows are written."""
        for write in self._writes:
            write.result()
        self._writes = []

    # Checkpoints

    def gather_state(self, state: State) -> State:
        """Returns the state on the host."""
        return mesh.to_host(state)

    def restore(self, state: State) -> State:
        """Returns a saved state with its server on the devices."""
        return state._replace(server=self.exp.layout.put(state.server))

    def save_checkpoint(self, directory: Path, r: int, state: State, settings: Mapping):
        """Writes the checkpoint of a round, with client rows outside the state."""
        self.wait()
        live = sum(int(stored.written.sum()) for stored in self.cohorts)
        changed = sum(int(stored.dirty[1].sum()) for stored in self.cohorts)
        rows = RowDelta(self._saved[0], live, changed, self._arrays)
        write = partial(row_deltas.write, rows, r)
        checkpoint.save(directory, r, self.gather_state(state), settings, write)
        self._mark_saved(r)

    def _arrays(self, complete: bool) -> dict[str, np.ndarray]:
        """Returns rows by cohort and leaf: all, or those that have changed."""
        by_cohort = ((i, c.arrays(complete)) for i, c in enumerate(self.cohorts))
        return {f"{i}{name}": a for i, rows in by_cohort for name, a in rows.items()}

    def _mark_saved(self, round: int):
        """Marks all rows as saved in the checkpoint of a round."""
        self._saved = self._saved[1], round
        for stored in self.cohorts:
            stored.dirty[1] = stored.dirty[0]
            stored.dirty[0] = False

    def load(self, path: Path):
        """Loads the rows of a checkpoint that a store of this kind wrote."""
        super().load(path)
        for arrays in row_deltas.read(path):
            for i, stored in enumerate(self.cohorts):
                names = (k for k in arrays if k.startswith(f"{i}."))
                stored.load({k.removeprefix(str(i)): arrays[k] for k in names})
        self._mark_saved(int(path.name))

    def close(self):
        """Ends the thread and removes the files."""
        self._pool.shutdown(wait=True)
        for stored in self.cohorts:
            stored.rows = ()
        self._space.close()
