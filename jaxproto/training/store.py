"""Clients between rounds where the device does not hold them: in memory or in files.

Only the rows of a round are on the device. While it computes, a thread reads those of
the next round and writes those of the last. A client that has never taken part has no
row: it is made from the run's key when it is asked for. Files are no more than room to
work in; what a run goes on from are the rows in its checkpoints.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import devices, federation
from jaxproto.config.build import Experiment
from jaxproto.config.cohorts import HOSTED, NODES
from jaxproto.data import files
from jaxproto.errors import UserError
from jaxproto.federation import Cohort
from jaxproto.participation import Participation
from jaxproto.storage import changes
from jaxproto.storage.changes import Changes
from jaxproto.training.programs import Programs, identities, keys
from jaxproto.types import Client, Shard, Tree

FOLDER = "clients.scratch"  # of the files, in the work directory


class Places(NamedTuple):
    """Rows of a cohort; those that are not used come last."""

    at: np.ndarray  # [n] places in the cohort
    room: int

    def fill(self, a: np.ndarray, other: int = 0) -> np.ndarray:
        """Rows [n, ...] with rows of a number after them [room, ...]."""
        rest = np.full((self.room - len(a), *a.shape[1:]), other, a.dtype)
        return np.concatenate([a, rest])


class Held:
    """The clients of one cohort."""

    def __init__(self, shapes: Client, ids, counts, allocate):
        """Of the shapes of one client; `allocate` makes an array by path and shape."""
        self.ids, self.counts = np.asarray(ids, np.int32), np.asarray(counts)
        lead = (len(self.ids),)
        leaves = jax.tree_util.tree_leaves_with_path(shapes)
        self.names = [jax.tree_util.keystr(path) for path, _ in leaves]
        self.rows = [
            allocate(name, lead + a.shape, a.dtype)
            for name, (_, a) in zip(self.names, leaves, strict=True)
        ]
        self.form = jax.tree.structure(shapes)
        self.written, self.dirty = np.zeros(lead, bool), np.zeros(lead, bool)

    def get(self, at: np.ndarray) -> list[np.ndarray]:
        """Rows of every leaf."""
        return [a[at] for a in self.rows]

    def set(self, at: np.ndarray, rows: Sequence[np.ndarray]):
        """Rows that have changed."""
        for a, new in zip(self.rows, rows, strict=True):
            a[at] = new[: len(at)]
        self.written[at] = self.dirty[at] = True


class ClientStore:
    """All registered clients of a run."""

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
            files.remove(folder)
            with files.writing(folder, 0):
                folder.mkdir(parents=True)
        self.cohorts = [
            Held(shape, c.ids, exp.counts.train[list(c.ids)], self._allocate)
            for c, shape in zip(exp.cohorts, shapes, strict=True)
        ]
        self._pool = ThreadPoolExecutor(1)
        self._now: list[Places] = []
        self._next: tuple[list[Places], Future] | None = None
        self._writes: list[Future] = []
        self._since: int | None = None  # round of the last checkpoint

    def _allocate(self, name: str, shape, dtype) -> np.ndarray:
        if self.folder is None or 0 in shape:
            return np.zeros(shape, dtype)
        self._files += 1
        path = self.folder / f"{self._files}.bin"
        files.reserve(path, int(np.prod(shape)) * dtype.itemsize)
        return np.memmap(path, dtype, "r+", shape=tuple(shape))

    # Rounds

    def begin(self, participants: Participation) -> tuple[list[Client], list[Shard]]:
        """Rows of all cohorts on the device, and their index tables."""
        places = self.places(np.asarray(participants.trains))
        ahead, self._next = self._next, None
        if ahead is not None and _same(ahead[0], places):
            rows = ahead[1].result()
        else:
            self.wait()
            rows = self._read(places)
        self._now = places
        each = zip(self.exp.train, places, strict=True)
        shards = [self.dealt(of_places(shard, p)) for shard, p in each]
        return self._on_device(places, rows), shards

    def ahead(self, participants: Participation):
        """Begins to read the rows of the round after this one."""
        places = self.places(np.asarray(participants.trains))
        self._next = places, self._pool.submit(self._read, places)

    def put(self, clients: Sequence[Client]):
        """Takes the rows of this round back, as they are after it."""
        rows = [jax.tree.leaves(c) for c in self._undealt(clients)]
        if self._next is not None:
            places, reading = self._next
            for now, new, then, old in zip(
                self._now, rows, places, reading.result(), strict=True
            ):
                _patch(now.at, new, then.at, old)
        self._settle()
        self._writes = [self._pool.submit(self._write, self._now, rows)]

    def take(self, cohort: int, places: Places) -> Client:
        """Rows of one cohort on the device, for an evaluation."""
        self.wait()
        every = [Places(np.zeros(0, int), 0)] * len(self.cohorts)
        every[cohort] = places
        return self._on_device(every, self._read(every))[cohort]

    def places(self, trains: np.ndarray) -> list[Places]:
        """The participants of each cohort."""
        return [
            Places(np.flatnonzero(trains[held.ids]), self.room(cohort))
            for held, cohort in zip(self.cohorts, self.exp.cohorts, strict=True)
        ]

    def room(self, cohort: Cohort) -> int:
        """Rows of a round: as many for every device."""
        number = self.exp.layout.number if self.exp.layout else 1
        return devices.width(cohort.room, number) * number

    def _read(self, places: Sequence[Places]) -> list[list[np.ndarray]]:
        rows = [held.get(p.at) for held, p in zip(self.cohorts, places, strict=True)]
        for i, (held, p) in enumerate(zip(self.cohorts, places, strict=True)):
            new = np.flatnonzero(~held.written[p.at])
            for first in range(0, len(new), max(p.room, 1)):
                which = new[first : first + p.room]
                made = self._made(i, Places(p.at[which], p.room))
                for a, b in zip(rows[i], made, strict=True):
                    a[which] = b[: len(which)]
        return rows

    def _made(self, i: int, p: Places) -> list[np.ndarray]:
        held = self.cohorts[i]
        ids, counts = p.fill(held.ids[p.at]), p.fill(held.counts[p.at])
        made = self._start[i](self._key, ids, counts.astype(np.float32))
        return jax.tree.leaves(jax.device_get(made))

    def _on_device(self, places, rows) -> list[Client]:
        made, nobody = [], len(self.exp.counts.train)
        for held, p, own in zip(self.cohorts, places, rows, strict=True):
            client = jax.tree.unflatten(held.form, [p.fill(a) for a in own])
            ids = p.fill(held.ids[p.at], nobody)
            made.append(self.dealt(client.replace(id=ids)))
        return made

    def dealt(self, tree: Tree) -> Tree:
        """Rows that the host has chosen, on the device, or dealt to several."""
        layout = self.exp.layout
        return jax.device_put(tree) if layout is None else layout.dealt(tree)

    def _undealt(self, clients: Sequence[Client]) -> list[Client]:
        layout = self.exp.layout
        if layout is None:
            return jax.device_get(list(clients))
        each = zip(devices.to_host(list(clients)), self._now, strict=True)
        return [devices.undeal(c, p.room, layout.number) for c, p in each]

    def _write(self, places, rows):
        for held, p, new in zip(self.cohorts, places, rows, strict=True):
            held.set(p.at, new)

    def _settle(self):
        for write in self._writes:
            write.result()
        self._writes = []

    def wait(self):
        """Returns when all rows are where they belong."""
        self._settle()

    # Checkpoints

    def changes(self) -> Changes:
        """What a checkpoint asks of the rows."""
        self.wait()
        live, changed = (
            sum(int(getattr(held, which).sum()) for held in self.cohorts)
            for which in ("written", "dirty")
        )
        return Changes(self._since, live, changed, self.arrays)

    def arrays(self, whole: bool) -> dict[str, np.ndarray]:
        """Rows by cohort and leaf: all, or those that have changed."""
        self.wait()
        found: dict[str, np.ndarray] = {}
        for i, held in enumerate(self.cohorts):
            at = np.flatnonzero(held.written if whole else held.dirty)
            if len(at):
                found[f"{i}.at"] = at
                named = zip(held.names, held.get(at), strict=True)
                found |= {f"{i}{name}": a for name, a in named if a.size}
        return found

    def saved(self, round: int):
        """All rows are in the checkpoint of a round."""
        self._since = round
        for held in self.cohorts:
            held.dirty[:] = False

    def load(self, arrays: Mapping[str, np.ndarray]):
        """Rows of a checkpoint, over those of earlier ones."""
        for i, held in enumerate(self.cohorts):
            if (at := arrays.get(f"{i}.at")) is None:
                continue
            for name, a in zip(held.names, held.rows, strict=True):
                if a.size:
                    a[at] = arrays[f"{i}{name}"]
            held.written[at] = True

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """Takes the files away: the run has ended, or was interrupted."""
        self._pool.shutdown(wait=True)
        if self.folder is not None:
            for held in self.cohorts:
                held.rows = []
            files.remove(self.folder)


def of_places(shard: Shard, p: Places) -> Shard:
    """Index tables of some rows."""
    return jax.tree.map(lambda a: p.fill(np.asarray(a)[p.at]), shard)


def _same(a: Sequence[Places], b: Sequence[Places]) -> bool:
    return all(np.array_equal(x.at, y.at) for x, y in zip(a, b, strict=True))


def _patch(at, new, at_next, old):
    """Rows that were read too early get what they are after this round."""
    _, here, there = np.intersect1d(at, at_next, return_indices=True)
    for a, b in zip(old, new, strict=True):
        a[there] = b[here]


def open_store(
    exp: Experiment, programs: Programs, seed: int, path: Path
) -> ClientStore | None:
    """Where the clients of a run are, if not on the device.

    Args:
      programs: with the floats of the run.
      path: work directory.

    Raises:
      UserError: there is not enough room on the disk.
    """
    if exp.store not in HOSTED or exp.store == NODES:
        return None
    key, shapes = keys(seed)[0], []
    for cohort in exp.cohorts:
        start = partial(federation.init_cohort, exp.method, exp.local, cohort)
        who = (a[:1] for a in identities(exp, cohort)[::-1])
        one = jax.eval_shape(start, key, *who)
        shapes.append(jax.tree.map(lambda a: a.update(shape=a.shape[1:]), one))
    folder = path / FOLDER if exp.store == "disk" else None
    return ClientStore(exp, programs.start_clients, key, shapes, folder)


def load_rows(store: ClientStore | None, checkpoint: Path):
    """Gives a store the rows of a checkpoint.

    Raises:
      UserError: the run that wrote it had its clients elsewhere.
    """
    there = changes.parts(checkpoint)
    if (store is None) == bool(there):
        way = "device" if store else "disk"
        raise UserError(
            f"{checkpoint} was written with clients.store={way}, as the memory of that "
            "machine was another; give --config.clients.store in a folder of its own, "
            "or go on there."
        )
    if store is not None:
        for arrays in changes.read(checkpoint):
            store.load(arrays)
        store.saved(int(checkpoint.name))
