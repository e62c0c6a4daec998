"""Loop over rounds: evaluation, checkpoints, callbacks, early ends and signals.

Single runs, the cells of a sweep in one program, and runs over nodes share the loop;
they differ in the engine.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence

from jaxproto.round.federation import Model
from jaxproto.training import processes, signals
from jaxproto.training.engine import Engine
from jaxproto.training.run import Run
from jaxproto.training.signals import StoppedBySignal


def train_rounds(
    runs: Sequence[Run],
    engine: Engine,
    ended: Callable[[int, dict], object] = lambda i, summary: None,
) -> list[dict]:
    """Trains runs to their last round; returns their summaries.

    Args:
      runs: Runs with equal schedules, in the order of the engine, after equally many
        rounds.
      ended: Called with index and summary of each run when it ends.

    Raises:
      StoppedBySignal: SIGTERM came, and the running round is saved.
    """
    with contextlib.ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.running())
        members, summaries = dict(enumerate(runs)), dict[int, dict]()

        def leave(indices: Iterable[int], model: Model):
            for i in indices:
                summaries[i] = members.pop(i).end(engine.member(model, i))
                ended(i, summaries[i])

        model = engine.joined([run.model for run in runs])
        for run in runs:
            del run.model
        with signals.graceful_rounds(runs[0].start.grace) as stop_requested:
            model = _rounds(members, engine, model, stop_requested, leave)
        leave([*members], model)
    return [summaries[i] for i in range(len(runs))]


def _rounds(
    members: dict[int, Run], engine: Engine, model: Model, stop_requested, leave
) -> Model:
    """Trains until the last round, or until all runs have ended; returns the model.

    Args:
      members: Runs by their index.
      stop_requested: Returns whether SIGTERM has come.
      leave: Indices, model -> ends and removes these members.
    """
    any_run, seconds = next(iter(members.values())), list[float]()
    config, first = any_run.config, any_run.first
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
