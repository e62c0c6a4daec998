"""Clients between rounds, in the arrays of the run's state.

A store brings the participants of a round to where they train, and takes them back. It
is the only place that knows where clients are: here on one device, in `mesh_store.py`
on several, in `hosted_store.py` in host memory or in files.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.gather import ParticipantRows
from jaxproto.participation import Participation
from jaxproto.storage import row_deltas as changes
from jaxproto.storage.row_deltas import RowDelta
from jaxproto.training.programs import Programs, State, lane_places
from jaxproto.types import Client, Tree

Clients = tuple[Client, ...]  # per cohort, as the state of the run has them


class Chunk(NamedTuple):
    """Clients of a cohort that one call evaluates."""

    cohort: int
    place: np.ndarray  # [R] of each row among those that are evaluated, -1 for none
    clients: Client
    tests: Tree


class ClientStore:
    """Clients of a run between rounds; by default the state has all of them."""

    def gather(
        self,
        who: Participation,
        clients: Clients,
        upcoming: Callable[[], Participation] | None = None,
    ) -> list[list[ParticipantRows]]:
        """Returns the participants of a round, by cohort and call.

        Args:
          who: takes part.
          clients: of the state.
          upcoming: computes who takes part in the next round; None where that follows
            from this one.
        """
        raise NotImplementedError

    def scatter(
        self,
        clients: Clients,
        rows: Sequence[Sequence[ParticipantRows]],
        trained: Sequence[Sequence[Client]],
    ) -> Clients:
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

    def own_state(self, state: State) -> tuple[State, dict[str, np.ndarray]]:
        """Returns a state without the rows of clients, and those of this process."""
        return self.gather_state(state), {}

    def restore(self, state: State) -> State:
        """Returns a state that was saved, where rounds are computed."""
        return state

    def changes(self) -> RowDelta | None:
        """Returns what a checkpoint writes beside the state, if anything."""
        return None

    def saved(self, round: int):
        """Is told that the checkpoint of a round is written."""

    def load(self, checkpoint: Path):
        """Takes what a checkpoint has beside the state.

        Raises:
          UserError: the run that wrote it had its clients elsewhere.
        """
        check_written(checkpoint, beside=False)

    def close(self):
        """Ends threads and removes scratch files."""


def check_written(checkpoint: Path, beside: bool):
    """Raises UserError for a checkpoint of a run that had its clients elsewhere.

    Args:
      beside: whether clients are expected beside the state.
    """
    if bool(changes.delta_folders(checkpoint)) != beside:
        way = "device" if beside else "disk"
        raise UserError(
            f"{checkpoint} was written with clients.store={way}, as the memory of that "
            "machine was another; give --config.clients.store in a folder of its own, "
            "or go on there."
        )


class DeviceStore(ClientStore):
    """Clients in the arrays of the state."""

    def __init__(self, exp: Experiment, programs: Programs):
        """Deals the tests of an experiment to the calls of an evaluation.

        Args:
          programs: with the floats of the run.
        """
        self._programs = programs
        self._shards = exp.train
        each = zip(exp.test, exp.cohorts, strict=True)
        self._tests = [_in_lanes(tests, cohort.num_lanes) for tests, cohort in each]

    def gather(
        self,
        who: Participation,
        clients: Clients,
        upcoming: Callable[[], Participation] | None = None,
    ) -> list[list[ParticipantRows]]:
        """Returns rows of the state, or the state where all clients train in a call."""
        del upcoming
        each = zip(self._programs.gather, clients, self._shards, strict=True)
        return [
            f(who, own, shards) if f else [ParticipantRows(None, own, shards)]
            for f, own, shards in each
        ]

    def scatter(
        self,
        clients: Clients,
        rows: Sequence[Sequence[ParticipantRows]],
        trained: Sequence[Sequence[Client]],
    ) -> Clients:
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


def _in_lanes(tests: Tree, lanes: int) -> list[tuple[np.ndarray, Tree]]:
    """Returns the places and index tables of each call."""
    count = len(jax.tree.leaves(tests)[0])
    if lanes == 1:
        return [(np.arange(count), tests)]
    every, found = range(-(-count // lanes) * lanes), []
    for lane, at in enumerate(lane_places(count, lanes)):
        number = np.asarray(every[lane::lanes])
        place = np.where(number < count, number, -1)
        found.append((place, jax.tree.map(lambda a, at=at: a[at], tests)))
    return found
