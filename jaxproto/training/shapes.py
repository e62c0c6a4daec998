"""Shapes of the arguments and results of a round's programs."""

from collections import ChainMap
from collections.abc import Sequence

import jax

from jaxproto.core.types import Tree
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.round.gather import ParticipantRows
from jaxproto.training import kinds as k
from jaxproto.training import programs
from jaxproto.training.kinds import Kind


class Shapes:
    """Shapes by kind, for the programs of the server."""

    def __init__(self, known: dict[str, Tree]):
        """Starts with the shapes of keys and data."""
        self.known, self.cohorts = ChainMap(known), list[CohortShapes]()

    def __getitem__(self, kind: Kind) -> Tree:
        """Returns the shapes of an argument."""
        return kind.shape(self) if kind.shape else self.known[kind.name]

    def add(self, kinds: Sequence[Kind], result: Tree):
        """Adds the shapes of the result of a program; see `Program.out`."""
        trees = result if len(kinds) > 1 else [result]
        self.known.update(zip([k.name for k in kinds], trees, strict=True))

    @property
    def uploads(self) -> tuple[Tree, ...]:
        """Returns the uploads of every call of all cohorts."""
        return tuple(c[k.UPLOAD] for c in self.cohorts for _ in c.calls)


class CohortShapes(Shapes):
    """Shapes by kind, for the programs of a cohort."""

    def __init__(self, exp: Experiment, i: int, shared: Shapes):
        """Starts with the shapes of the data of cohort `i`."""
        cohort = exp.cohorts[i]
        super().__init__({})
        self.known, self._num_calls = self.known.new_child(), exp.num_calls(cohort)
        self.known.maps.append(shared.known)
        shared.cohorts.append(self)
        ids, count = programs.client_ids_and_counts(exp, cohort)
        tables = {k.IDS: ids, k.COUNTS: count, k.SHARDS: exp.train[i]}
        for kind, table in tables.items():
            self.add([kind], _of_call(exp, cohort, table))
        self.add([k.TESTS], _of_call(exp, cohort, exp.test[i], self._num_calls))

    @property
    def calls(self) -> list[ParticipantRows]:
        """Returns the participants of every call that trains the cohort."""
        whole = ParticipantRows(None, self[k.CLIENTS], self[k.SHARDS])
        return self.known.get(k.CALLS.name) or [whole] * self._num_calls

    @property
    def evaluated(self) -> Tree:
        """Returns the clients of a call that evaluates the cohort."""
        return (self.known.get(k.TESTED.name) or [self[k.CLIENTS]])[0]


def _of_call(exp: Experiment, cohort: CohortPlan, tree: Tree, calls: int = 1) -> Tree:
    """Returns the shapes of a call's part of arrays [K, ...] of all clients."""

    def one(a):
        resident, hosted = (len(a), calls), (cohort.num_rows, exp.num_calls(cohort))
        rows = exp.rows_of_call(*resident if exp.resident else hosted)
        return jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype)

    return jax.tree.map(one, tree)
