"""Loop over rounds: evaluation, checkpoints, callbacks, early ends and signals.

Single runs, the cells of a sweep in one program, and runs over nodes share the loop.
They differ in the engine, which computes rounds and evaluations and does not depend on
records, checkpoints, callbacks or signals.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import plugins
from jaxproto.callbacks import RunInfo
from jaxproto.config import flatten
from jaxproto.core.types import Client, Tree
from jaxproto.experiment import display_names
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import NODES
from jaxproto.round.federation import Model
from jaxproto.storage import checkpoint, record_file, records
from jaxproto.storage.run_folder import METRICS, SUMMARY, RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import run_summary, sanity
from jaxproto.summary.progress_lines import say
from jaxproto.training import processes, signals
from jaxproto.training.lifecycle import Run
from jaxproto.training.programs import State
from jaxproto.training.rounds import (
    Diverged,
    RoundEnvironment,
    RoundOutputs,
    RoundSummary,
    compute_round,
    dropped_line,
    finish_round,
)
from jaxproto.training.run_evaluation import (
    CohortSums,
    client_columns,
    evaluate_model,
    record,
)
from jaxproto.training.signals import StoppedBySignal

Evaluation = tuple[Experiment, CohortSums]  # of the evaluated clients


class TrainedFederation(NamedTuple):
    """A federation after a round."""

    exp: Experiment
    server: Tree
    clients: tuple[Client, ...]  # per cohort, [K, ...]


class Engine:
    """Computes the rounds of runs that share compiled programs; by default of one."""

    size: int = 1  # federations per program; divides the seconds of a round
    checkpoint_every: int = sys.maxsize  # maximum rounds between checkpoints

    def joined(self, states: Sequence[State]) -> Model:
        """Joins the states of the runs to the model of the engine."""
        (state,) = states
        return Model(state.server, state.clients)

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes round `r`, from 0; returns the model and the outputs per run."""
        raise NotImplementedError

    def evaluate(self, r: int, model: Model) -> list[Evaluation]:
        """Evaluates every run after `r` rounds."""
        raise NotImplementedError

    def member(self, model: Model, i: int) -> Model:
        """Returns the model of one run."""
        return model


class LocalEngine(Engine):
    """One run on the devices of this process."""

    def __init__(self, work: RoundEnvironment):
        self.work = work

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes a round on the devices of this process."""
        context = self.work.context(r)
        model, outputs = compute_round(self.work, context, model, r)
        return model, [outputs]

    def evaluate(self, r: int, model: Model) -> list[Evaluation]:
        """Evaluates on the devices of this process."""
        return [(self.work.exp, evaluate_model(self.work, model))]


class LoopRun:
    """One run of a loop, with its counters on the host."""

    def __init__(self, run: Run, state: State, history: list[dict], first: int):
        """Starts after `first` rounds; keeps the state without its model."""
        self.run, self._checkpoints = run, run.path / "checkpoints"
        self.history = record_file.RecordFile(run.path / METRICS, history)
        self.counts = state._replace(server=(), clients=())
        self.status: dict | None = None  # how it ended
        self.last: RoundSummary  # of the last round
        self.diagnostics: Mapping[str, np.ndarray]  # of the last round
        all_parts = sanity.trains_all_parts(run.config, run.work.exp)
        self.signs = sanity.TrainingSigns(bool(history), all_parts)
        self.display = contextlib.ExitStack()
        progress = run.progress(run.config.rounds, first, run.console)
        self._bar = self.display.enter_context(progress)

    def trained(self, r: int, seconds: float, outputs: RoundOutputs):
        """Counts round `r`, from 1; ends the run if it has diverged."""
        exp, self.diagnostics = self.run.work.exp, outputs.diagnostics
        try:
            self.counts, self.last = finish_round(exp, r - 1, self.counts, outputs)
        except Diverged as e:
            self.status = self._diverged(r, e)
            return
        if line := dropped_line(r, outputs):
            say(self.run.console, line)
        self._warn(self.signs.round(r, outputs.reports))
        self._bar.round(r, seconds)
        self.run.callbacks.round(r, seconds, self.last._asdict())

    def _diverged(self, r: int, error: Diverged) -> dict:
        """Returns the status of a run that diverged in round `r`, with advice.

        Uploads of that round were sent, so its privacy is spent.
        """
        run, saved = self.run, "No round was saved before it"
        if rounds := checkpoint.rounds(self._checkpoints):
            saved = f"The checkpoint of round {rounds[-1]} stays in {self._checkpoints}"
        reason = (
            f"{error} {saved}; in another folder, a smaller "
            "optimizer.learning_rate or optimizer.clip_norm may help."
        )
        say(run.console, f"diverged: {reason}")
        return {"status": Status.DIVERGED.value, "reason": reason} | run.privacy(r)

    def evaluated(self, r: int, evaluation: Evaluation, seconds: Sequence[float]):
        """Writes the record of an evaluation."""
        run, last, (exp, sums) = self.run, self.last, evaluation
        entry = record(exp, r, self.counts, last, self.diagnostics, seconds, sums)
        entry |= run.privacy(r)
        if run.config.eval.per_client:
            table = client_columns(exp, last, sums)
            records.write_columns(run.path / "per_client" / f"{r:06}.npz", table)
        new, warnings = self.signs.evaluated(entry)
        self._warn(new)
        entry |= {"warnings": warnings} if warnings else {}
        self.history.append(entry)
        run.callbacks.notify("on_evaluation", self.history.records[-1])
        self._bar.evaluated(entry)

    def _warn(self, lines: Iterable[str]):
        for line in sanity.warning_lines(lines):
            say(self.run.console, line)

    def leave_early(self):
        """Ends the run if a callback of the primary process requests it."""
        if processes.any_process(self.run.callbacks.stop is not None):
            self.status = self.run.callbacks.status(self.run.config)

    def save_checkpoint(self, r: int, model: Model):
        """Writes a checkpoint; Ctrl-C waits until it is complete."""
        run, state, folder = self.run, self._state(model), self._checkpoints
        with signals.uninterrupted():
            run.work.store.save_checkpoint(folder, r, state, run.settings)
        run.callbacks.notify("on_checkpoint", r, folder / str(r))

    def end(self, model: Model) -> dict:
        """Writes `summary.json` and what `AT_END` adds; returns the summary."""
        self.display.close()
        run, exp, history = self.run, self.run.work.exp, self.history
        status = self.status or run.callbacks.status(run.config)
        state = run.work.store.gather_state(self._state(model))

        def write() -> dict:
            history.restore()
            summary = run_summary.run_summary(
                run.config, exp, history.records, run.compile_stats, status
            )
            if Status(status["status"]).ok and exp.store != NODES:
                trained = TrainedFederation(exp, state.server, state.clients)
                name = display_names.display_name(flatten(run.config))
                for place in plugins.table("AT_END").values():
                    plugins.lazy(place)(trained, run.path, run.console, name)
            records.write_json(run.path / SUMMARY, summary)
            run.callbacks.end(records.to_json_values(summary))
            return summary

        return processes.broadcast_result(write)

    def _state(self, model: Model) -> State:
        return self.counts._replace(server=model.server, clients=model.clients)


def train_rounds(
    runs: Sequence[Run],
    engine: Engine,
    first: int,
    states: Sequence[State],
    ended: Callable[[int, dict], object] = lambda i, summary: None,
) -> list[dict]:
    """Trains runs from round `first` to their last one; returns their summaries.

    Args:
      runs: Runs with equal schedules, in the order of the engine.
      first: Rounds that are done.
      states: State of each run after `first` rounds.
      ended: Called with index and summary of each run when it ends.

    Raises:
      StoppedBySignal: SIGTERM came, and the running round is saved.
    """
    with contextlib.ExitStack() as stack:
        histories = [RunFolder.at(run.path).records for run in runs]
        for run, history in zip(runs, histories, strict=True):
            info = RunInfo(run.path, flatten(run.config), first, history)
            stack.enter_context(run.callbacks.running(info))
        starts = zip(runs, states, histories, strict=True)
        members = dict(enumerate(LoopRun(*start, first) for start in starts))
        for member in members.values():
            stack.callback(member.display.close)

        summaries = dict[int, dict]()

        def leave(indices: Iterable[int], model: Model):
            for i in indices:
                summaries[i] = members.pop(i).end(engine.member(model, i))
                ended(i, summaries[i])

        with signals.graceful_rounds(runs[0].grace) as stop_requested:
            model = _rounds(
                members, engine, first, engine.joined(states), stop_requested, leave
            )
        leave([*members], model)
    return [summaries[i] for i in range(len(runs))]


def _rounds(
    members, engine: Engine, first: int, model: Model, stop_requested, leave
) -> Model:
    """Trains until the last round, or until all runs have ended; returns the model.

    Args:
      members: `LoopRun` of all runs by their index.
      stop_requested: Returns whether SIGTERM has come.
      leave: Indices, model -> ends and removes these members.
    """
    config, seconds = next(iter(members.values())).run.config, list[float]()
    checkpoint_every = min(config.checkpoint_every, engine.checkpoint_every)
    for member in members.values():
        member.leave_early()
    for r in range(first + 1, config.rounds + 1):
        done = [i for i, member in members.items() if member.status]
        if len(done) == len(members):
            break
        leave(done, model)
        clock = time.perf_counter()
        model, outputs = engine.round(r - 1, model)
        seconds.append((time.perf_counter() - clock) / engine.size)
        for i, member in members.items():
            member.trained(r, seconds[-1], outputs[i])
        active = {i: m for i, m in members.items() if not m.status}
        last = r == config.rounds
        if active and (last or r % config.eval_every == 0):
            evaluation = engine.evaluate(r, model)
            for i, member in active.items():
                member.evaluated(r, evaluation[i], seconds)
            seconds = []
        for member in active.values():
            member.leave_early()
        stop = processes.any_process(stop_requested())
        for i, member in active.items():
            if last or member.status or stop or r % checkpoint_every == 0:
                member.save_checkpoint(r, engine.member(model, i))
        active = {i: m for i, m in active.items() if not m.status}
        if stop and active:
            leave([*members.keys() - active.keys()], model)
            raise StoppedBySignal(f"round {r} is saved, the same command goes on")
    return model
