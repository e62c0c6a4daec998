"""Data, networks and checkpoint of a run, each loaded at its first use."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import jax
import ml_collections
import numpy as np

from jaxproto.client import receive
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.saved_runs import evaluate, restore
from jaxproto.saved_runs.evaluate import EvaluationCounts
from jaxproto.saved_runs.restore import RestoredRun
from jaxproto.saved_runs.saved_client import (
    ClientData,
    CompiledClient,
    ExampleSet,
    SavedClient,
    check_id,
    compile_client,
)
from jaxproto.storage.run_folder import RunFolder
from jaxproto.training import programs
from jaxproto.types import Examples, Net, Tree


class RunResources:
    """The data and networks of a run, which do not change while it trains.

    A deep copy is the object itself, and a pickled one loads them again.
    """

    def __init__(self, run: RunFolder, config: ml_collections.ConfigDict):
        self.run, self.config = run, config
        self._compiled: dict[str, CompiledClient] = {}

    def __deepcopy__(self, memo) -> "RunResources":
        return self

    def __reduce__(self):
        return RunResources, (self.run, self.config)

    @cached_property
    def exp(self) -> Experiment:
        """The experiment, built again from the configuration."""
        return restore.experiment(self.run, self.config)

    @cached_property
    def examples(self) -> Examples:
        """All examples, on the device."""
        return build.examples(self.exp.dataset)

    def compiled(self, name: str, net: Net) -> CompiledClient:
        """Returns the compiled functions of an architecture."""
        if name not in self._compiled:
            exp = self.exp
            made = compile_client(exp.method, net, name, exp.dataset)
            again = partial(self.compiled_by_name, name)
            self._compiled[name] = made._replace(again=again)
        return self._compiled[name]

    def compiled_by_name(self, name: str) -> CompiledClient:
        """Returns the compiled functions of a network of this name."""
        return self.compiled(name, self.exp.network(name))

    def data_of(self, i: int) -> ClientData:
        """Returns the examples of a client."""
        dataset, partition = self.exp.dataset, self.exp.partition
        rows = partition.train[i], partition.test[i]
        return ClientData(*(ExampleSet(dataset.x[r], dataset.y[r]) for r in rows))


class CheckpointView:
    """The state in the newest usable checkpoint, read at its first use.

    A deep copy is the object itself, and a pickled one reads the checkpoint again.
    """

    def __init__(self, resources: RunResources):
        self.resources = resources
        self._counts: dict[tuple[str, bool], EvaluationCounts] = {}

    def __deepcopy__(self, memo) -> "CheckpointView":
        return self

    def __reduce__(self):
        return CheckpointView, (self.resources,)

    @cached_property
    def opened(self) -> RestoredRun:
        """The run with its state."""
        resources = self.resources
        return restore.read_latest(resources.run, resources.config, resources.exp)

    @property
    def is_open(self) -> bool:
        """True once the checkpoint has been read."""
        return "opened" in self.__dict__

    @cached_property
    def down(self) -> Tree:
        """The broadcast as clients receive it."""
        run = self.opened
        return programs.jit_programs(run.exp).broadcast(run.state.server).message

    def client(self, i: int) -> SavedClient:
        """Returns the client of an id."""
        run = self.opened
        cohorts = enumerate(run.exp.cohorts)
        index, cohort = next((n, c) for n, c in cohorts if i in c.ids)
        rows = run.clients(index, np.array([cohort.ids.index(i)]))
        state = jax.tree.map(lambda a: a[0], rows)
        if cohort.stateless:  # returns the client at the start of a round
            method = run.exp.method
            state = cohort.kept_state.restore(method, cohort.net, state)
            state, _ = receive(method, state, self.down)
        compiled = self.resources.compiled(cohort.name, cohort.net)
        data = partial(self.resources.data_of, i)
        return SavedClient(compiled, state, self.down, data)

    def evaluate(self, part: str, clients: Sequence[int] | None) -> EvaluationCounts:
        """Returns counts of correct predictions on a part, as `evaluate.evaluate`.

        They include `clients`; None is those that the run evaluates.
        """
        run = self.opened
        everyone = not {*(clients or ())} <= {*run.exp.counted_ids.tolist()}
        if (key := (part, everyone)) not in self._counts:
            examples = self.resources.examples
            self._counts[key] = evaluate.evaluate(run, examples, part, everyone)
        return self._counts[key]


class Clients(Sequence[SavedClient]):
    """The clients of a run by id."""

    def __init__(self, view: CheckpointView, number: int):
        self._view, self._number = view, number

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, i):
        check_id(i, self._number)
        return self._view.client(int(i))

    def __iter__(self) -> Iterator[SavedClient]:
        return (self._view.client(i) for i in range(self._number))

    def __repr__(self) -> str:
        return f"<{self._number} clients, 0 to {self._number - 1}>"
