"""Clients between rounds, in the arrays of the run's state.

A store brings the participants of a round to where they train, and takes them back. It
is the only place that knows where clients are: here on one device, in `mesh_store.py`
on several, in `hosted_store.py` in host memory or in files.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.gather import ParticipantRows
from jaxproto.participation import Participation
from jaxproto.storage import checkpoint, row_deltas
from jaxproto.training import multihost
from jaxproto.training.programs import Programs, State, lane_places
from jaxproto.types import Client, Shard

Clients = tuple[Client, ...]  # per cohort, as the state of the run has them
Calls = list[list[ParticipantRows]]  # participants by cohort and call
Trained = list[list[Client]]  # the same after a round
Upcoming = Callable[[], Participation] | None  # who takes part in the next round


class Chunk(NamedTuple):
    """Clients of a cohort that one call evaluates."""

    cohort: int
    place: np.ndarray  # [R] of each row among those that are evaluated, -1 for none
    clients: Client
    tests: Shard


class ClientStore:
    """Clients of a run between rounds; by default the state has all of them."""

    def gather(self, who: Participation, clients: Clients, upcoming: Upcoming) -> Calls:
        """Returns the participants of a round, by cohort and call.

        Args:
          who: takes part.
          clients: of the state.
          upcoming: None where that follows from this round.
        """
        raise NotImplementedError

    def scatter(self, clients: Clients, rows: Calls, trained: Trained) -> Clients:
        """Returns all clients, with what `gather` returned as it is now."""
        raise NotImplementedError

    def evaluated(self, clients: Clients) -> Iterator[list[Chunk]]:
        """Yields the clients to evaluate; the calls of a list run side by side."""
        raise NotImplementedError

    def of_tests(self, exp: Experiment, programs: Programs) -> "ClientStore":
        """Returns the store of the same clients for another test part."""
        raise NotImplementedError

    def rows(self, cohort: int, place: np.ndarray, clients: Client) -> Client:
        """Returns some clients of a cohort, [n, ...], on the host."""
        del cohort
        return jax.tree.map(lambda a: np.asarray(a)[place], clients)

    def gather_state(self, state: State) -> State:
        """Returns the state as one device has it."""
        return state

    def restore(self, state: State) -> State:
        """Returns a state that was saved, where rounds are computed."""
        return state

    def save_checkpoint(self, directory: Path, r: int, state: State, settings: Mapping):
        """Writes the checkpoint of a round; `settings` are those of the run."""
        state = self.gather_state(state)
        if multihost.is_primary():
            checkpoint.save(directory, r, state, settings)

    def load(self, found: Path):
        """Takes what a checkpoint has beside the state.

        Raises:
          UserError: the run that wrote it had its clients elsewhere.
        """
        check_written(found, beside=False)

    def close(self):
        """Ends threads and removes scratch files."""


def check_written(found: Path, beside: bool):
    """Raises UserError for a checkpoint of a run that had its clients elsewhere.

    Args:
      beside: whether clients are expected beside the state.
    """
    if bool(row_deltas.delta_folders(found)) != beside:
        way = "device" if beside else "disk"
        raise UserError(
            f"{found} was written with clients.store={way}, as the memory of that "
            "machine was another; give --config.clients.store in a folder of its own, "
            "or go on there."
        )


class DeviceStore(ClientStore):
    """Clients in the arrays of the state."""

    def __init__(self, exp: Experiment, programs: Programs):
        """Puts nothing on the device yet.

        Args:
          programs: with the floats of the run.
        """
        self._exp, self._programs = exp, programs

    @cached_property
    def _shards(self) -> tuple[Shard, ...]:
        return jax.device_put(self._exp.train)

    @cached_property
    def _tests(self) -> list[list[tuple[np.ndarray, Shard]]]:
        each = zip(self._exp.test, self._exp.cohorts, strict=True)
        return [_in_lanes(own, cohort.num_lanes) for own, cohort in each]

    def gather(self, who: Participation, clients: Clients, upcoming: Upcoming) -> Calls:
        """Returns rows of the state, or the state where all clients train in a call."""
        del upcoming
        each = zip(self._programs.gather, clients, self._shards, strict=True)
        return [
            f(who, own, shards) if f else [ParticipantRows(None, own, shards)]
            for f, own, shards in each
        ]

    def scatter(self, clients: Clients, rows: Calls, trained: Trained) -> Clients:
        """Returns the state with the rows that were trained."""
        each = zip(self._programs.scatter, clients, rows, trained, strict=True)
        return tuple(
            f(own, [r.place for r in lanes], list(new)) if f else new[0]
            for f, own, lanes, new in each
        )

    def evaluated(self, clients: Clients) -> Iterator[list[Chunk]]:
        """Yields all calls of all cohorts at once."""
        chunks = []
        for i, (f, own) in enumerate(zip(self._programs.tested, clients, strict=True)):
            tests = self._tests[i]
            lanes = f(own) if f else [own] * len(tests)
            for mine, (place, table) in zip(lanes, tests, strict=True):
                chunks.append(Chunk(i, place, mine, table))
        yield chunks

    def of_tests(self, exp: Experiment, programs: Programs) -> "DeviceStore":
        """Returns the store of the same clients for another test part."""
        return DeviceStore(exp, programs)


def _in_lanes(tests: Shard, lanes: int) -> list[tuple[np.ndarray, Shard]]:
    """Returns the places and index tables of each call, on the device."""
    count, found = len(tests.size), []
    for at in lane_places(count, lanes):
        table = jax.tree.map(lambda a, at=at: a[np.minimum(at, count - 1)], tests)
        found.append((np.where(at < count, at, -1), jax.device_put(table)))
    return found
