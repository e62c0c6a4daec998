"""Saved runs, as `jaxproto.load` opens them."""

from collections.abc import Sequence
from pathlib import Path

import jax
import ml_collections

from jaxproto.config import flatten
from jaxproto.data import partition_stats
from jaxproto.data.partition_stats import Counts
from jaxproto.errors import UserError
from jaxproto.saved_runs import export, metrics_table, new_client, restore
from jaxproto.saved_runs.lazy_state import CheckpointView, Clients, RunResources
from jaxproto.saved_runs.metrics_table import Table
from jaxproto.saved_runs.saved_client import SavedClient, check_id
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.storage.workdir import check_complete
from jaxproto.summary import host_prototypes
from jaxproto.summary.pictures import HostProtos
from jaxproto.types import Tree


def load(workdir: str | Path, data_dir: str = "") -> "SavedRun":
    """Opens the folder of a run: finished, going on, stopped or diverged.

    Configuration and records are read now; data, checkpoint and programs when what is
    asked for needs them. Nothing is written into the folder and no lock is taken, so a
    run that goes on is not disturbed.

    Args:
      workdir: of the run.
      data_dir: where the data set is now; "" is where the run found it.

    Raises:
      UserError: the folder is not that of a run, or a file in it is damaged.
    """
    return SavedRun(Path(workdir), data_dir)


class SavedRun:
    """A run, its clients and its server after the last usable checkpoint.

    Attributes:
      path: its folder.
      config: its configuration; fields that did not exist then at their default.
      metrics: `metrics.jsonl` as a `Table`, one row for each evaluated round and rule;
        its columns are in `saved.measured.metrics`.
      summary: `summary.json`, or None of a run that has not ended.
      status: "finished", "stopped early" or "diverged" of a run that has ended;
        "running" of one that goes on or was interrupted, "extended" of a finished one
        that is being made longer.
      rounds: the last round that has a record.
    """

    config: ml_collections.ConfigDict
    metrics: Table
    summary: dict | None
    status: Status
    rounds: int

    def __init__(self, path: Path, data_dir: str = ""):
        """Reads the folder of a run, as `load` does."""
        self.path, self._data_dir = path, data_dir
        self.refresh()

    def refresh(self) -> "SavedRun":
        """Reads again what a run that goes on has written since; returns itself.

        Clients and tables that were taken out before stay what they were.

        Raises:
          UserError: as `load`.
        """
        run = RunFolder.read(self.path)
        config, status = restore.configuration(run, self._data_dir), run.status()
        if status is Status.FINISHED:
            check_complete(self.path, config, run.results["rounds"])
        last: CheckpointView | None = getattr(self, "_now", None)
        if last and last.is_open and flatten(config) == flatten(self.config):
            resources = last.resources
        else:
            resources = RunResources(run, config)
        self._now = CheckpointView(resources)
        self.config, self.summary, self.status = config, run.summary, status
        self.metrics, self.rounds = metrics_table.metrics_table(run.records), run.round
        return self

    @property
    def partition(self) -> Counts:
        """Examples per client and class, [K, C] for training and for test.

        Raises:
          UserError: `partition.csv` is missing or damaged.
        """
        return partition_stats.read_csv(self.path / "partition.csv")

    @property
    def round(self) -> int:
        """Rounds behind clients and server: those of the last usable checkpoint.

        Raises:
          UserError: there is no checkpoint that can be used.
        """
        return self._now.opened.round

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each newer checkpoint that could not be used."""
        return self._now.opened.notes

    @property
    def server(self) -> Tree:
        """The server's state, a pytree of numpy arrays."""
        return jax.device_get(self._now.opened.state.server)

    @property
    def prototypes(self) -> HostProtos | None:
        """The global prototypes as clients receive them: `mean` [C, D], `count` [C].

        A class of count 0 has none. Compressed ones are in the places of their masks;
        what clients make of them (`Method.client_view`) is not in them. None where a
        method sends none.
        """
        exp = self._now.opened.exp
        found = host_prototypes.on_host(self._now.down)
        if found is None:
            return None
        return host_prototypes.expand_masked(
            found, host_prototypes.masks(exp.method, exp.spec.feat_dim)
        )

    @property
    def clients(self) -> Clients:
        """The clients by id: `clients[3]`, `len(clients)`, in a loop."""
        return Clients(self._now, self.config.data.clients)

    def evaluate(
        self,
        rules: str | Sequence[str] | None = None,
        clients: Sequence[int] | None = None,
        part: str = "test",
    ) -> dict[str, dict[str, float]]:
        """Returns the accuracy by rule: pooled, and mean and spread over clients.

        On the test data it is that of the record of round `round`, to the last digit on
        the same kind of device. Programs are compiled at the first call.

        Args:
          rules: one or several; None is all.
          clients: their ids; None is those whom the run evaluates.
          part: test, train or validation.

        Raises:
          UserError: no such rule, client or part.
        """
        rules = [rules] if isinstance(rules, str) else rules
        if clients is not None:
            for i in clients:
                check_id(i, self.config.data.clients)
            if not clients:
                raise UserError("there is no client in `clients`; name one, or None.")
        return self._now.evaluate(part, clients).accuracy(rules, clients)

    def to_torch(self, i: int, path: str | Path):
        """Writes the network of a client as a `state_dict` of PyTorch.

        Of methods that give a client several networks, it is its own one,
        `params["net"]`. `jaxproto.models.from_torch` reads the file back to the same
        bits.

        Args:
          i: the client.
          path: ends in .safetensors or .npz, or, where torch is installed, .pt.

        Raises:
          UserError: a network of one's own, or another suffix.
        """
        export.to_torch(self.clients[i], Path(path))

    def new_client(
        self,
        x,
        y,
        x_test,
        y_test,
        *,
        architecture: str = "",
        epochs: int = 0,
        id: int | None = None,
    ) -> SavedClient:
        """Joins a client that never trained: it receives, trains and is evaluated.

        It is drawn as every client of the run, takes over what the server of the last
        checkpoint broadcasts, and trains for itself as in a first round, with the
        learning rate of the run's last one. The server stays as it is: what the client
        would send goes nowhere, and a method's exchange before training does not take
        place.

        Args:
          x, y: examples to train on, as the data set stores them (`SavedClient.scores`)
            and class numbers, or names where classes have some.
          x_test, y_test: to test on.
          architecture: its network; "" is the one that the run's group gives to `id`.
          epochs: over `x`; 0 is as many as the run's clients take in a round.
          id: from which its randomness follows; None is the first that is free.

        Returns:
          The client. Its `joined` is a table with a row for each rule: accuracy on the
          test data `before` (nan where a rule needs the broadcast), `after_broadcast`
          and `after_training`.

        Raises:
          UserError: examples, labels or architecture do not fit the run.
        """
        run, resources = self._now.opened, self._now.resources
        id = self.config.data.clients if id is None else id
        if isinstance(id, bool) or not isinstance(id, int) or id < 0:
            raise UserError(f"id is {id!r}; give a whole number from 0 on.")
        data = new_client.examples_of(run.exp.dataset, (x, y), (x_test, y_test))
        name, net = new_client.architecture(run.exp, self.config, architecture, id)
        tools = resources.tools(name, net)
        return new_client.join(run, tools, self._now.down, data, id, epochs)

    def __repr__(self) -> str:
        c = self.config
        return (
            f"<{self.path}: {c.method.name} on {c.data.name}, "
            f"{c.data.clients} clients, seed {c.seed}, "
            f"{self.rounds} of {c.rounds} rounds, {self.status}>"
        )
