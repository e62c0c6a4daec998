"""Writer of runs of MLflow, in the store of `MLFLOW_TRACKING_URI` or the default."""

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

NAME = "mlflow_id.txt"  # in the work directory: id of the run, for resuming
LIMITS = {"params": 100, "metrics": 1000}  # entries that a store accepts per request
LENGTH = 500  # characters of a parameter that every version of MLflow accepts
STATUS = {"finished": "FINISHED", "stopped early": "FINISHED", "interrupted": "KILLED"}
_starting = threading.Lock()  # cells of a sweep start concurrently


class Mlflow(Callback):
    """Callback that logs a run of the experiment `MLFLOW_EXPERIMENT_NAME`.

    A resumed run continues the MLflow run. Rounds that the store has are not logged
    again, because the store would show both.
    """

    def on_start(self, run_info: RunInfo):
        """Starts the run with its parameters, or resumes it."""
        with _starting:
            self._client = MlflowClient()
            self._id = self._stored_run(run_info.path) or self._new_run(run_info)
        self._last_round = self._logged_round()
        for record in run_info.records:
            self.on_evaluation(record)

    def on_evaluation(self, record: Mapping):
        """Logs the numbers of a record."""
        now = time.time_ns() // 1_000_000
        new = [p for p in scalar_points(record) if p.round > self._last_round]
        entries = [Metric(k, v, now, r) for r, values in new for k, v in values.items()]
        for chunk in _chunks(entries, LIMITS["metrics"]):
            self._client.log_batch(self._id, metrics=chunk)

    def on_end(self, summary: Mapping):
        """Sets the status of the run."""
        status = STATUS.get(summary["status"], "FAILED")
        self._client.set_terminated(self._id, status)

    def _stored_run(self, path: Path) -> str:
        """Returns the id of a work directory's run, or "" if the store lacks it."""
        file = path / NAME
        run_id = file.read_text().strip() if file.exists() else ""
        if not run_id:
            return ""
        try:
            self._client.update_run(run_id, status="RUNNING")
        except MlflowException:  # deleted in the store, or another store
            return ""
        return run_id

    def _new_run(self, run_info: RunInfo) -> str:
        """Creates a run with its parameters; returns its id."""
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", "jaxproto")
        if experiment := self._client.get_experiment_by_name(title):
            experiment_id = experiment.experiment_id
        else:
            experiment_id = self._client.create_experiment(title)
        name = run_info.path.resolve().name
        run_id = self._client.create_run(experiment_id, run_name=name).info.run_id
        params = [Param(k, f"{v}"[:LENGTH]) for k, v in run_info.config.items()]
        for chunk in _chunks(params, LIMITS["params"]):
            self._client.log_batch(run_id, params=chunk)
        atomic.write(run_info.path / NAME, f"{run_id}\n".encode())
        return run_id

    def _logged_round(self) -> int:
        """Returns the last round that the store has."""
        metrics = self._client.get_run(self._id).data.metrics
        name = next(iter(metrics), "")
        history = self._client.get_metric_history(self._id, name) if name else []
        return max((m.step for m in history), default=0)


def _chunks(entries: list, size: int) -> list[list]:
    return [entries[i : i + size] for i in range(0, len(entries), size)]
