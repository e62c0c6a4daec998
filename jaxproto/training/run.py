"""A run in training: records, checkpoints, callbacks and summary."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxproto import plugins
from jaxproto.callbacks import EarlyStopping, RunInfo
from jaxproto.config import features, flatten
from jaxproto.experiment import display_names
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import NODES
from jaxproto.round.federation import Model
from jaxproto.storage import checkpoint, record_file, records, workdir
from jaxproto.storage.run_folder import METRICS, SUMMARY, RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import run_summary, sanity
from jaxproto.summary.progress_lines import say
from jaxproto.training import processes, signals
from jaxproto.training.callback_list import CallbackList
from jaxproto.training.client_store import ClientStore
from jaxproto.training.engine import Evaluation
from jaxproto.training.lifecycle import Start, file_checksums
from jaxproto.training.programs import RoundContexts, State
from jaxproto.training.rounds import (
    Diverged,
    RoundOutputs,
    dropped_line,
    finish_round,
)
from jaxproto.training.run_evaluation import client_columns, record


class Run:
    """A run in training, with its counters on the host."""

    def __init__(
        self,
        start: Start,
        exp: Experiment,
        store: ClientStore,
        state: State,
        compile_stats: run_summary.CompileStats,
        context: RoundContexts | None = None,
    ):
        """Restores the newest valid checkpoint; without any, starts with `state`.

        Args:
          context: Returns number and secret key of a round; None derives the key
            from the seed.

        Raises:
          UserError: The folder has checkpoints, and none is valid.
        """
        config, rule = start.config, None
        self.start, self.config, self.path = start, config, start.path
        self.exp, self.store, self._compile_stats = exp, store, compile_stats
        self._checkpoints = start.path / "checkpoints"
        self._settings = workdir.settings(config) | file_checksums(config, exp)
        options = config.early_stopping
        if options.patience and processes.is_primary():
            rule = EarlyStopping(options.patience, options.rule, options.least)
        self.callbacks = CallbackList(start.callbacks, start.console, rule)
        self._accounts = features.account(config, exp, context)
        self.first, (server, clients, *counters) = self._resume(state)
        self.model = Model(server, clients)  # until the engine takes it
        self._counters: Sequence = counters  # `traffic` and `watched` of the state
        history = RunFolder.at(self.path).records
        self._history = record_file.RecordFile(self.path / METRICS, history)
        all_parts = sanity.trains_all_parts(config, exp)
        self._signs = sanity.TrainingSigns(bool(history), all_parts)
        self.status: dict | None = None  # how it ended
        self._last: dict[str, Any]  # summary of the last round
        self._diagnostics: Mapping[str, np.ndarray]  # of the last round
        self._display = contextlib.ExitStack()

    def _resume(self, state: State) -> tuple[int, State]:
        """Restores the newest checkpoint; truncates the metrics to its round.

        A checkpoint is valid only if the metrics have the records of all evaluations
        that are due up to its round.
        """
        like = self.store.gather_state(state)
        restored = processes.raise_everywhere(lambda: self._restore_latest(like))
        first, saved = processes.broadcast_arrays((restored.round, restored.state))
        records.truncate_after(self.path / METRICS, int(first))
        return int(first), self.store.restore(saved) if first else state

    def _restore_latest(self, like: State) -> checkpoint.Restored:
        """Restores the newest valid checkpoint; loads client rows into the store."""
        directory, console = self._checkpoints, self.start.console
        due = workdir.expected_rounds(self.path, self.config)
        covered = records.coverage(self.path / METRICS, due)
        found = checkpoint.restore_latest(directory, like, self._settings, covered)
        if found is None:
            return checkpoint.Restored(0, like, [])
        self.store.load(directory / str(found.round))
        for note in found.notes:
            say(console, note)
        say(console, f"resuming {self.path} after round {found.round}")
        checkpoint.prune(directory, found.round)
        return found

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Notifies callbacks of the start, and shows the progress until the end."""
        config, records = self.config, self._history.records
        info = RunInfo(self.path, flatten(config), self.first, records)
        with self.callbacks.running(info), self._display:
            progress = self.start.progress(
                config.rounds, self.first, self.start.console
            )
            self._bar = self._display.enter_context(progress)
            yield

    def trained(self, r: int, seconds: float, outputs: RoundOutputs):
        """Counts round `r`, from 1; ends the run if it has diverged."""
        self._diagnostics = outputs.diagnostics
        try:
            last = finish_round(self.exp, r - 1, outputs, self._counters)
            self._last, self._counters = last
        except Diverged as e:
            self.status = self._diverged(r, e)
            return
        if line := dropped_line(r, outputs):
            say(self.start.console, line)
        self._warn(self._signs.round(r, outputs.reports))
        self._bar.round(r, seconds)
        self.callbacks.round(r, seconds, self._last)

    def _diverged(self, r: int, error: Diverged) -> dict:
        """Returns the status of a run that diverged in round `r`, with advice.

        Uploads of that round were sent, so its privacy is spent.
        """
        saved = "No round was saved before it"
        if rounds := checkpoint.rounds(self._checkpoints):
            saved = f"The checkpoint of round {rounds[-1]} stays in {self._checkpoints}"
        reason = (
            f"{error} {saved}; in another folder, a smaller "
            "optimizer.learning_rate or optimizer.clip_norm may help."
        )
        say(self.start.console, f"diverged: {reason}")
        return {"status": Status.DIVERGED.value, "reason": reason} | self._accounts(r)

    def evaluated(self, r: int, evaluation: Evaluation, seconds: Sequence[float]):
        """Writes the record of an evaluation."""
        last, (exp, sums) = self._last, evaluation
        counters, diagnostics = self._counters, self._diagnostics
        entry = record(exp, r, last, sums, counters, diagnostics, seconds)
        entry |= self._accounts(r)
        if self.config.eval.per_client:
            table = client_columns(exp, last, sums)
            records.write_columns(self.path / "per_client" / f"{r:06}.npz", table)
        new, warnings = self._signs.evaluated(entry)
        self._warn(new)
        entry |= {"warnings": warnings} if warnings else {}
        self._history.append(entry)
        self.callbacks.notify("on_evaluation", self._history.records[-1])
        self._bar.evaluated(entry)

    def _warn(self, lines: Iterable[str]):
        for line in sanity.warning_lines(lines):
            say(self.start.console, line)

    def leave_early(self):
        """Ends the run if a callback of the primary process requests it."""
        if processes.any_process(self.callbacks.stop is not None):
            self.status = self.callbacks.status(self.config)

    def save_checkpoint(self, r: int, model: Model):
        """Writes a checkpoint; Ctrl-C waits until it is complete."""
        state, folder = self._state(model), self._checkpoints
        with signals.uninterrupted():
            self.store.save_checkpoint(folder, r, state, self._settings)
        self.callbacks.notify("on_checkpoint", r, folder / str(r))

    def end(self, model: Model) -> dict:
        """Writes `summary.json` and what `AT_END` adds; returns the summary."""
        self._display.close()
        config, exp, history = self.config, self.exp, self._history
        status = self.status or self.callbacks.status(config)
        state = self.store.gather_state(self._state(model))

        def write() -> dict:
            history.restore()
            summary = run_summary.run_summary(
                config, exp, history.records, self._compile_stats, status
            )
            if Status(status["status"]).ok and exp.store != NODES:
                ended = exp, Model(state.server, state.clients), self.path
                name = display_names.display_name(flatten(config))
                for place in plugins.table("AT_END").values():
                    plugins.lazy(place)(*ended, self.start.console, name)
            records.write_json(self.path / SUMMARY, summary)
            self.callbacks.end(records.to_json_values(summary))
            return summary

        return processes.broadcast_result(write)

    def _state(self, model: Model) -> State:
        return State(*model, *self._counters)
