"""The loop over rounds: evaluation, checkpoints, callbacks, early ends and signals.

It is the same for a run alone, for the cells of a sweep in one program, and for nodes;
what differs is the engine, which computes rounds and evaluations and knows nothing of
records, checkpoints, callbacks or signals.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jaxproto.experiment.build import Experiment
from jaxproto.federation import Model
from jaxproto.storage import records
from jaxproto.storage.run_folder import METRICS
from jaxproto.training import lifecycle, multihost, signals
from jaxproto.training.evaluation import (
    EvaluationSums,
    client_columns,
    record,
    run_evaluation,
)
from jaxproto.training.lifecycle import Run, info, keep
from jaxproto.training.programs import State
from jaxproto.training.rounds import (
    Diverged,
    RoundEnvironment,
    RoundOutputs,
    RoundSummary,
    computed,
    finish_round,
    round_context,
)
from jaxproto.training.signals import StoppedBySignal

ANY = 2**31 - 1  # rounds between checkpoints


class Evaluated(NamedTuple):
    """An evaluation, and the experiment with the clients that took part in it."""

    exp: Experiment
    outcome: EvaluationSums


class Engine:
    """Computes the rounds of runs that agree in their programs; by default of one."""

    size: int = 1  # federations in a program: seconds of a round are divided by it
    checkpoint_every: int = ANY  # rounds between checkpoints at most

    def joined(self, states: Sequence[State]) -> Model:
        """Brings the states of the runs to where rounds are computed."""
        (state,) = states
        return Model(state.server, state.clients)

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes round `r`, from 0; what is told of it, per run."""
        raise NotImplementedError

    def evaluate(self, r: int, model: Model) -> list[Evaluated]:
        """Evaluates after `r` rounds, per run."""
        raise NotImplementedError

    def member(self, model: Model, i: int) -> Model:
        """Returns the model of one run."""
        del i
        return model


class LocalEngine(Engine):
    """One run on the devices of this process."""

    def __init__(self, work: RoundEnvironment):
        """Of the data and compiled programs of a run."""
        self.work = work

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes a round on the devices of this process."""
        context = round_context(self.work, r)
        model, outputs = computed(self.work, context, model, r)
        return model, [outputs]

    def evaluate(self, r: int, model: Model) -> list[Evaluated]:
        """Evaluates on the devices of this process."""
        del r
        return [Evaluated(self.work.exp, run_evaluation(self.work, model))]


class LoopRun:
    """One run of a loop, with what the host counts of it."""

    def __init__(self, run: Run, state: State, first: int):
        """After `first` rounds; the model of the state is the engine's."""
        self.run = run
        self.counts = state._replace(server=(), clients=())
        self.status: dict | None = None  # how it ended
        self.last: RoundSummary  # what the last round moved
        self._shown = contextlib.ExitStack()
        shown = run.shown(run.config.rounds, first, run.console)
        self._bar = self._shown.enter_context(shown)

    def trained(self, r: int, seconds: float, outputs: RoundOutputs):
        """Counts round `r`, from 1; the run ends if it has diverged."""
        exp = self.run.work.exp
        try:
            self.counts, self.last = finish_round(exp, r - 1, self.counts, outputs)
        except Diverged as e:
            self.status = lifecycle.diverged(self.run, e)
            return
        self._bar.round(r, seconds)
        self.run.told.round(r, seconds, self.last._asdict())

    def evaluated(self, r: int, evaluation: Evaluated, seconds: Sequence[float]):
        """Writes the record of an evaluation."""
        run, (exp, outcome) = self.run, evaluation
        entry = record(exp, r, self.counts, self.last, seconds, outcome) | run.spent(r)
        if run.config.eval.per_client:
            table = client_columns(exp, self.last, outcome)
            records.write_columns(run.path / "per_client" / f"{r:06}.npz", table)
        records.append(run.path / METRICS, entry)
        run.told.notify("on_evaluation", records.to_json_values(entry))
        self._bar.evaluated(entry)

    def leave_early(self):
        """Ends the run if a callback of the first process wants no more rounds."""
        if multihost.any_process(self.run.told.stop is not None):
            self.status = self.run.told.status(self.run.config)

    def keep(self, r: int, model: Model):
        """Writes a checkpoint."""
        keep(self.run, r, self._whole(model))

    def end(self, model: Model) -> dict:
        """Writes pictures and summary, and returns the summary."""
        self._shown.close()
        status = self.status or self.run.told.status(self.run.config)
        return lifecycle.ended(self.run, self._whole(model), status)

    def _whole(self, model: Model) -> State:
        return self.counts._replace(server=model.server, clients=model.clients)

    def close(self):
        """Takes away what is shown of the run."""
        self._shown.close()


def train_rounds(
    runs: Sequence[Run],
    engine: Engine,
    first: int,
    states: Sequence[State],
    ended: Callable[[int, dict], object] = lambda i, summary: None,
) -> list[dict]:
    """Trains runs from round `first` to their last one; returns their summaries.

    Args:
      runs: with equal rounds, evaluations and checkpoints, in the order of the engine.
      states: of each run, after `first` rounds.
      ended: is told number and summary of each run when it ends.

    Raises:
      Stopped: SIGTERM came, and the round that was running is saved.
    """
    with contextlib.ExitStack() as stack:
        for run in runs:
            start = info(run.path, run.config, first)
            stack.enter_context(run.told.running(start))
        members = {
            i: LoopRun(run, state, first)
            for i, (run, state) in enumerate(zip(runs, states, strict=True))
        }
        for member in members.values():
            stack.callback(member.close)

        summaries = dict[int, dict]()

        def leave(which: Iterable[int], model: Model):
            for i in which:
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
    """Rounds until the last one, or until no run goes on.

    Args:
      members: of all runs by their number; those that leave before others are taken
        out.
      stop_requested: whether SIGTERM has come.
      leave: ends some of the members.
    """
    config, seconds = next(iter(members.values())).run.config, list[float]()
    every = min(config.checkpoint_every, engine.checkpoint_every)
    for member in members.values():
        member.leave_early()
    for r in range(first + 1, config.rounds + 1):
        over = [i for i, member in members.items() if member.status]
        if len(over) == len(members):
            break
        leave(over, model)
        clock = time.perf_counter()
        model, outputs = engine.round(r - 1, model)
        seconds.append((time.perf_counter() - clock) / engine.size)
        for i, member in members.items():
            member.trained(r, seconds[-1], outputs[i])
        left = {i: m for i, m in members.items() if not m.status}
        last = r == config.rounds
        if left and (last or r % config.eval_every == 0):
            evaluation = engine.evaluate(r, model)
            for i, member in left.items():
                member.evaluated(r, evaluation[i], seconds)
            seconds = []
        for member in left.values():
            member.leave_early()
        stop = multihost.any_process(stop_requested())
        for i, member in left.items():
            if last or member.status or stop or r % every == 0:
                member.keep(r, engine.member(model, i))
        left = {i: m for i, m in left.items() if not m.status}
        if stop and left:
            leave([*members.keys() - left.keys()], model)
            raise StoppedBySignal(f"round {r} is saved, the same command goes on")
    return model
