"""What is known of a run beyond its records, each part when it is first asked for."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import jax
import ml_collections
import numpy as np

from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.saved_runs import evaluate
from jaxproto.saved_runs import restore as opened_
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
from jaxproto.types import Client, Examples, Net, Tree


class RunResources:
    """What stays the same while a run goes on: its data and networks."""

    def __init__(self, run: RunFolder, config: ml_collections.ConfigDict):
        """Of a run's folder; data and checkpoints are not read yet."""
        self.run, self.config = run, config
        self._tools: dict[str, CompiledClient] = {}

    @cached_property
    def exp(self) -> Experiment:
        """The experiment, built again."""
        return opened_.experiment(self.run, self.config)

    @cached_property
    def examples(self) -> Examples:
        """All examples, on the device."""
        return build.examples(self.exp.dataset)

    def tools(self, name: str, net: Net) -> CompiledClient:
        """What clients of an architecture are asked with."""
        if name not in self._tools:
            made = compile_client(self.exp.method, net, name, self.exp.dataset)
            self._tools[name] = made
        return self._tools[name]

    def data_of(self, i: int) -> ClientData:
        """The examples of a client."""
        dataset, partition = self.exp.dataset, self.exp.partition
        rows = partition.train[i], partition.test[i]
        return ClientData(*(ExampleSet(dataset.x[r], dataset.y[r]) for r in rows))


class CheckpointView:
    """What a checkpoint holds."""

    def __init__(self, world: RunResources):
        """Of the newest one that can be used, when it is asked for."""
        self.world = world
        self._found: dict[tuple[str, bool], EvaluationCounts] = {}

    @cached_property
    def opened(self) -> RestoredRun:
        """The state of the run."""
        return opened_.read_latest(
            self.world.run.path, self.world.config, self.world.exp
        )

    @property
    def is_open(self) -> bool:
        """Whether it has been read."""
        return "opened" in self.__dict__

    @cached_property
    def down(self) -> Tree:
        """The broadcast, as clients have it after the wire."""
        run = self.opened
        return opened_.jit_programs(run.exp).broadcast(run.state.server).message

    def client(self, i: int) -> SavedClient:
        """The client of an id."""
        run = self.opened
        number, cohort = next(
            (n, c) for n, c in enumerate(run.exp.cohorts) if i in c.ids
        )
        rows = run.clients(number, np.array([cohort.ids.index(i)]))
        state = jax.tree.map(lambda a: a[0], rows)
        if cohort.stateless:
            state = client_at_round_start(run.exp.method, cohort, state, self.down)
        kit = self.world.tools(cohort.name, cohort.net)
        return SavedClient(kit, state, self.down, lambda: self.world.data_of(i))

    def found(self, part: str, clients: Sequence[int] | None) -> EvaluationCounts:
        """Correct predictions of a part of the data, of these clients at the least."""
        run = self.opened
        more = not {*(clients or ())} <= evaluate.evaluated_clients(run.exp)
        if (part, more) not in self._found:
            made = evaluate.evaluate(run, self.world.examples, part, more)
            self._found[part, more] = made
        return self._found[part, more]


def client_at_round_start(
    method: Method, cohort: Cohort, client: Client, down: Tree
) -> Client:
    """A client that keeps nothing, as it begins a round."""
    own = cohort.persistence.restore(method, cohort.net, client)
    return own.replace(
        params=method.receive(own.params, down),
        norm=method.receive_stats(own.norm, down),
    )


class Clients(Sequence[SavedClient]):
    """The clients of a run by id."""

    def __init__(self, inside: CheckpointView, number: int):
        """Of so many."""
        self._inside, self._number = inside, number

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, i):
        check_id(i, self._number)
        return self._inside.client(int(i))

    def __iter__(self) -> Iterator[SavedClient]:
        return (self._inside.client(i) for i in range(self._number))

    def __repr__(self) -> str:
        return f"<{self._number} clients, 0 to {self._number - 1}>"
