"""Runs of MLflow, in the store that `MLFLOW_TRACKING_URI` names or MLflow's own."""

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import scalar_points
from jaxproto.io import atomic

NAME = "mlflow_id.txt"  # in the work directory: the id of the run, for when it goes on
LIMITS = {"params": 100, "metrics": 1000}  # that a store takes at once
LENGTH = 500  # characters of a parameter, in every version
STATUS = {"finished": "FINISHED", "stopped early": "FINISHED", "interrupted": "KILLED"}
_starting = threading.Lock()  # cells of a sweep begin at the same time


class Mlflow(Callback):
    """A run of the experiment `MLFLOW_EXPERIMENT_NAME`, or `jaxproto`.

    A run that goes on is the same run there; rounds that the store has are not logged
    again, for it would show both.
    """

    def on_start(self, run_info: RunInfo):
        """Begins the run with its parameters, or goes on with it."""
        with _starting:
            self._client = MlflowClient()
            self._id = self._known(run_info.path) or self._new(run_info)
        self._there = self._newest()
        for record in run_info.records:
            self.on_evaluation(record)

    def on_evaluation(self, record: Mapping):
        """Logs the numbers of a record."""
        now = time.time_ns() // 1_000_000
        new = [p for p in scalar_points(record) if p.round > self._there]
        made = [Metric(k, v, now, r) for r, values in new for k, v in values.items()]
        for part in _parts(made, LIMITS["metrics"]):
            self._client.log_batch(self._id, metrics=part)

    def on_end(self, summary: Mapping):
        """Says how the run has ended."""
        status = STATUS.get(summary["status"], "FAILED")
        self._client.set_terminated(self._id, status)

    def _known(self, path: Path) -> str:
        """The id of the run of a work directory, if the store still has it."""
        file = path / NAME
        known = file.read_text().strip() if file.exists() else ""
        if not known:
            return ""
        try:
            self._client.update_run(known, status="RUNNING")
        except MlflowException:  # deleted there, or another store
            return ""
        return known

    def _new(self, run_info: RunInfo) -> str:
        experiment = self._client.get_experiment_by_name(_experiment())
        where = (
            self._client.create_experiment(_experiment())
            if experiment is None
            else experiment.experiment_id
        )
        name = run_info.path.resolve().name
        made = self._client.create_run(where, run_name=name).info.run_id
        given = [Param(k, f"{v}"[:LENGTH]) for k, v in run_info.config.items()]
        for part in _parts(given, LIMITS["params"]):
            self._client.log_batch(made, params=part)
        atomic.write(run_info.path / NAME, f"{made}\n".encode())
        return made

    def _newest(self) -> int:
        """The last round that the store has."""
        known = self._client.get_run(self._id).data.metrics
        name = next(iter(known), "")
        history = self._client.get_metric_history(self._id, name) if name else []
        return max((m.step for m in history), default=0)


def _experiment() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_NAME", "jaxproto")


def _parts(rows: list, most: int) -> list[list]:
    return [rows[i : i + most] for i in range(0, len(rows), most)]
