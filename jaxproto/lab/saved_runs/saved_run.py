"""Saved runs, as `jaxproto.load` opens them."""

from collections.abc import Sequence
from pathlib import Path

import jax
import ml_collections
import pandas as pd

from jaxproto.config import flatten
from jaxproto.core.types import Tree
from jaxproto.data import partition_stats
from jaxproto.data.partition_stats import Counts
from jaxproto.errors import UserError
from jaxproto.lab.saved_runs import export, metrics_table, new_client, restore
from jaxproto.lab.saved_runs.lazy_state import CheckpointView, Clients, RunResources
from jaxproto.lab.saved_runs.saved_client import SavedClient, check_id
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.storage.workdir import check_complete
from jaxproto.summary import host_prototypes
from jaxproto.summary.host_prototypes import HostProtos


def load(workdir: str | Path, data_dir: str = "") -> "SavedRun":
    """Opens the folder of a run: finished, still training, stopped or diverged.

    Configuration and records are read now; data, checkpoint and programs at their first
    use. Nothing is written into the folder and no lock is taken, so a run that still
    trains is not disturbed.

    Args:
      workdir: folder of the run.
      data_dir: folder of the data set; "" is where the run found it.

    Raises:
      UserError: the folder is not that of a run, or a file in it is damaged.
    """
    return SavedRun(Path(workdir), data_dir)


class SavedRun:
    """A run, its clients and its server after the last usable checkpoint.

    Attributes:
      path: its folder.
      config: its configuration; fields that are newer than the run have their default.
      metrics: `metrics.jsonl` as a data frame, a row for each evaluated round and rule;
        `metrics_table.metrics_table` describes the columns.
      summary: `summary.json`, or None if the run has not ended.
      status: "finished", "stopped early" or "diverged" if the run has ended; "running"
        if it trains or was interrupted; "extended" if it finished with fewer rounds
        than are planned now.
      rounds: the last round that has a record.
    """

    config: ml_collections.ConfigDict
    metrics: pd.DataFrame
    summary: dict | None
    status: Status
    rounds: int

    def __init__(self, path: Path, data_dir: str = ""):
        """Reads the folder of a run, as `load` does."""
        self.path, self._data_dir = path, data_dir
        self.refresh()

    def refresh(self) -> "SavedRun":
        """Reads what the run has written since the last reading; returns itself.

        Clients and tables obtained before do not change.

        Raises:
          UserError: as `load`.
        """
        run = RunFolder.read(self.path)
        config, status = restore.configuration(run, self._data_dir), run.status()
        if status is Status.FINISHED:
            check_complete(run.folder, config, run.results["rounds"])
        old: CheckpointView | None = getattr(self, "_now", None)
        if old and old.is_open and flatten(config) == flatten(self.config):
            resources = old.resources
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
        return partition_stats.read_csv(
            self._now.resources.run.folder / "partition.csv"
        )

    @property
    def round(self) -> int:
        """Number of rounds after which the last usable checkpoint was saved.

        Raises:
          UserError: there is no usable checkpoint.
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

        A class of count 0 has no prototype. Sparse prototypes are expanded by their
        masks. Changes by the client (`Method.client_view`) are not applied. None if the
        method sends no prototypes.
        """
        exp = self._now.opened.exp
        protos = host_prototypes.on_host(self._now.down)
        if protos is None:
            return None
        return host_prototypes.expand_masked(
            protos, host_prototypes.masks(exp.method, exp.spec.feat_dim)
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

        On the test data it equals the record of round `round`, to the last digit on the
        same kind of device. Programs are compiled at the first call.

        Args:
          rules: one or several prediction rules; None is all.
          clients: ids of clients; None is those that the run evaluates.
          part: test, train or validation.

        Raises:
          UserError: there is no such rule, client or part.
        """
        rules = [rules] if isinstance(rules, str) else rules
        if clients is not None:
            clients = [*clients]  # an array has no truth value
            for i in clients:
                check_id(i, self.config.data.clients)
            if not clients:
                raise UserError("there is no client in `clients`; name one, or None.")
        return self._now.evaluate(part, clients).accuracy(rules, clients)

    def to_torch(self, i: int, path: str | Path):
        """Writes the network of a client as a `state_dict` of PyTorch.

        If the method gives a client several networks, it is `params["net"]`.
        `jaxproto.models.from_torch` reads the file, bit for bit.

        Args:
          i: id of the client.
          path: file that ends in .safetensors or .npz, or .pt if torch is installed.

        Raises:
          UserError: the network is not one of this library, or the suffix is another.
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
        """Joins a new client: it receives the broadcast, trains and is evaluated.

        It is initialised like every client of the run, receives the broadcast of the
        last checkpoint, and trains as in its first round, with the learning rate of the
        run's last round. The server does not change: it does not receive the upload,
        and a method's exchange before training does not take place.

        Args:
          x, y: training examples as the data set stores them (`SavedClient.scores`),
            and their class numbers, or names if the classes have names.
          x_test, y_test: test examples.
          architecture: its network; "" is the one that the run's group gives to `id`.
          epochs: passes over `x`; 0 is `local.epochs` of the run.
          id: id, which determines its randomness; None is the first that is free.

        Returns:
          The client. Its `joined` is a table with a row for each rule: accuracy on the
          test data `before` (nan if the rule needs the broadcast), `after_broadcast`
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
        compiled = resources.compiled(name, net)
        return new_client.join(run, compiled, self._now.down, data, id, epochs)

    def __repr__(self) -> str:
        c = self.config
        return (
            f"<{self.path}: {c.method.name} on {c.data.name}, "
            f"{c.data.clients} clients, seed {c.seed}, "
            f"{self.rounds} of {c.rounds} rounds, {self.status}>"
        )
