"""Client store in the arrays of the run's state, and base of the other stores.

A store gathers the participants of a round and scatters them back. Only the store knows
where clients are between rounds: on one device (this module), on several devices
(`mesh_store.py`), or in host memory or files (`hosted_store.py`).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import jax
import numpy as np

from jaxproto.core.types import Client, Shard
from jaxproto.devices import mesh
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.round.gather import ParticipantRows
from jaxproto.round.participation import Participation
from jaxproto.storage import checkpoint, row_deltas
from jaxproto.training.programs import Programs, State

Clients = tuple[Client, ...]  # per cohort, of the state of the run
Calls = list[list[ParticipantRows]]  # participants, by cohort and call
Trained = list[list[Client]]  # participants after training, by cohort and call
Upcoming = Callable[[], Participation] | None  # participation of the next round
# index of a cohort, and its clients that one call evaluates, in their places among the
# evaluated clients, -1 for padding
Chunk = tuple[int, ParticipantRows]


class ClientStore:
    """Clients of a run between rounds, here in the arrays of the state."""

    hosted: bool = False  # whether clients are outside the state

    def __init__(self, exp: Experiment, programs: Programs):
        """Stores programs with the floats of the run; no data is on the device yet."""
        self._exp, self._programs = exp, programs

    @cached_property
    def _shards(self) -> tuple[Shard, ...]:
        return jax.device_put(self._exp.train)

    @cached_property
    def _tests(self) -> list[list[tuple[np.ndarray, Shard]]]:
        by_cohort = zip(self._exp.test, self._exp.cohorts, strict=True)
        return [_in_calls(tests, self._exp.num_calls(c)) for tests, c in by_cohort]

    def gather(self, who: Participation, clients: Clients, upcoming: Upcoming) -> Calls:
        """Returns the participants of a round, by cohort and call.

        Args:
          upcoming: Draws the participants of the next round; None if they depend on
            this round.
        """
        by_cohort = zip(self._programs.gather, clients, self._shards, strict=True)
        return [
            f(who, rows, shards) if f else [ParticipantRows(None, rows, shards)]
            for f, rows, shards in by_cohort
        ]

    def scatter(self, clients: Clients, rows: Calls, trained: Trained) -> Clients:
        """Returns all clients with the trained rows of the participants."""
        by_cohort = zip(self._programs.scatter, clients, rows, trained, strict=True)
        return tuple(
            f(old, [call.place for call in calls], list(new)) if f else new[0]
            for f, old, calls, new in by_cohort
        )

    def evaluated(self, clients: Clients) -> Iterator[list[Chunk]]:
        """Yields the clients to evaluate; the chunks of one list run side by side."""
        chunks = []
        by_cohort = zip(self._programs.tested, clients, self._tests, strict=True)
        for i, (f, of_cohort, tests) in enumerate(by_cohort):
            calls = f(of_cohort) if f else [of_cohort] * len(tests)
            for rows, (place, table) in zip(calls, tests, strict=True):
                chunks.append((i, ParticipantRows(place, rows, table)))
        yield chunks

    def of_tests(self, exp: Experiment, programs: Programs) -> "ClientStore":
        """Returns a store of these clients for another test split."""
        return ClientStore(exp, programs)

    def rows(self, cohort: int, place: np.ndarray, clients: Client) -> Client:
        """Returns some clients of a cohort, [n, ...], on the host."""
        return jax.tree.map(lambda a: np.asarray(a)[place], clients)

    def gather_state(self, state: State) -> State:
        """Returns the state in the layout of one device."""
        return state

    def restore(self, state: State) -> State:
        """Returns a saved state in the layout of this store."""
        return state

    def save_checkpoint(self, directory: Path, r: int, state: State, settings: Mapping):
        """Writes the checkpoint of a round, with the settings of the run."""
        checkpoint.save(directory, r, state, settings)

    def load(self, path: Path):
        """Loads the rows of a checkpoint that are outside the state.

        Raises:
          UserError: Another kind of store wrote the checkpoint.
        """
        if bool(row_deltas.delta_folders(path)) != self.hosted:
            store = "device" if self.hosted else "disk"
            raise UserError(
                f"{path} was written with clients.store={store}, as the memory of that "
                "machine was another; give --config.clients.store in a folder of its "
                "own, or go on there."
            )

    def close(self):
        """Ends threads and removes scratch files."""


def _in_calls(tests: Shard, calls: int) -> list[tuple[np.ndarray, Shard]]:
    """Returns the places and index tables of each call, on the device."""
    places = mesh.interleaved_order(len(tests.size), calls).reshape(calls, -1)
    tables = (jax.tree.map(lambda a, p=p: a[p], tests) for p in places)
    return list(zip(places, map(jax.device_put, tables), strict=True))
