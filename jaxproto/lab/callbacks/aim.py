"""Writer of runs of Aim, in the repository of `AIM_REPO` or the current folder."""

import threading
from collections.abc import Mapping

import aim

from jaxproto.callbacks.base import Callback, RunInfo
from jaxproto.callbacks.scalars import plain_settings, scalar_points
from jaxproto.io import atomic

NAME = "aim_id.txt"  # in the work directory: hash of the run, for resuming
_starting = threading.Lock()  # cells of a sweep start concurrently


class Aim(Callback):
    """Callback that tracks a run of the experiment `jaxproto`.

    A resumed run continues the Aim run; rounds that it has are not tracked again.
    """

    def on_start(self, run_info: RunInfo):
        """Starts or resumes the run."""
        hash_file = run_info.path / NAME
        with _starting:
            stored = hash_file.read_text().strip() if hash_file.exists() else None
            self._run = aim.Run(
                run_hash=stored,
                experiment="jaxproto",
                system_tracking_interval=None,
                log_system_params=False,
                capture_terminal_logs=False,
            )
        atomic.write(hash_file, f"{self._run.hash}\n".encode())
        self._run.name = run_info.path.resolve().name
        self._run["config"] = plain_settings(run_info.config)
        self._last_round = self._run.get("rounds_told", 0)
        for record in run_info.records:
            self.on_evaluation(record)

    def on_evaluation(self, record: Mapping):
        """Tracks the numbers of a record."""
        for r, values in scalar_points(record):
            if r <= self._last_round:
                continue
            for name, value in values.items():
                self._run.track(value, name=name, step=r)
            self._last_round = r
        self._run["rounds_told"] = self._last_round

    def on_end(self, summary: Mapping):
        """Closes the run."""
        self._run["status"] = summary["status"]
        self._run.close()
