"""One run: build, compile, rounds with evaluation and checkpoints, summary."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from rich.console import Console

from jaxproto import (
    build,
    checkpoint,
    compilation,
    memory,
    metrics,
    pictures,
    programs,
    report,
)
from jaxproto import config as config_
from jaxproto import workdir as folder
from jaxproto.build import Experiment
from jaxproto.programs import Programs, State
from jaxproto.progress import progress, result_table
from jaxproto.types import Pool


class Diverged(RuntimeError):
    """A loss, an upload or a parameter is no longer a finite number."""


class Setup(NamedTuple):
    """What stays the same over the rounds of a run."""

    config: ml_collections.ConfigDict
    path: Path
    exp: Experiment
    pool: Pool
    compiled: Programs
    compile_seconds: float
    bytes_needed: int  # on the device, by XLA's account
    console: Console


class Round(NamedTuple):
    """What the host learns of a round."""

    loss: float  # mean over the clients that took a step
    participants: int
    scalars_up: int
    scalars_down: int


def run(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    console: Console | None = None,
) -> dict:
    """Runs or resumes an experiment; a finished one is left as it is.

    Args:
      config: see `jaxproto.config.default`.
      workdir: folder of the run; "" is `runs/<config>-<dataset>-seed<seed>`.
      console: where progress and tables go.

    Returns:
      The summary, as in `summary.json`; its `status` is "finished" or "diverged".

    Raises:
      UserError: before training, for anything that cannot work.
    """
    console = console or Console()
    compilation.keep_compiled()
    config_.check(config)
    path = Path(workdir or folder.default(config))
    with folder.claim(path):
        folder.check_config(path, config)
        summary = folder.summary(path)
        if summary is None:
            summary = _run(config, path, console)
        else:
            _say(console, f"{path} is {summary['status']}: nothing to do.")
    console.print(result_table(summary))
    return summary


def _run(config, path: Path, console: Console) -> dict:
    exp = build.experiment(config, jax.default_backend())
    build.check(exp)
    report.partition(exp, path, console)
    pool = build.pool(exp.source)
    state = programs.init(exp, config.seed)
    auto = config.clients_at_once == "auto"
    limit = memory.available(jax.devices()[0]) if auto else None
    exp, *made = programs.compile_to_fit(exp, config.seed, state, pool, limit)
    folder.save_config(path, config)  # not before all that can be wrong was tried
    setup = Setup(config, path, exp, pool, *made, console)
    _say(console, f"needs about {setup.bytes_needed / 2**20:,.0f} MiB of the device")
    start, state = resume(setup, state)
    try:
        state = all_rounds(setup, start, state)
        status = {"status": "finished"}
    except Diverged as e:
        status = {"status": "diverged", "reason": f"{e} {_way_out(path)}"}
        _say(console, f"diverged: {status['reason']}")
    summary = report.summary(setup, status)
    if status["status"] == "finished":
        pictures.draw(setup, state)
    metrics.write_json(path / "summary.json", summary)
    return summary


def _say(console: Console, text: str):
    """Prints a sentence as it is, however long: paths may hold brackets."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _way_out(path: Path) -> str:
    directory = path / "checkpoints"
    rounds = checkpoint.rounds(directory)
    last = f"{rounds[-1]} stays in {directory}" if rounds else ""
    kept = f"The checkpoint of round {last}" if rounds else ""
    return (
        f"{kept or 'No round was saved before it'}; in another folder, a smaller "
        "optimizer.learning_rate or optimizer.clip_norm may help."
    )


def resume(setup: Setup, state: State) -> tuple[int, State]:
    """The newest readable checkpoint, with metrics cut to it; else round 0."""
    found = checkpoint.latest(setup.path / "checkpoints", state)
    start = 0
    if found is not None:
        start, state, notes = found
        for note in notes:
            _say(setup.console, note)
        _say(setup.console, f"resuming {setup.path} after round {start}")
    metrics.keep_until(setup.path / "metrics.jsonl", start)
    return start, state


def all_rounds(setup: Setup, start: int, state: State) -> State:
    """The loop over rounds.

    Raises:
      Diverged: names round, cohort and client.
    """
    config, seconds = setup.config, []
    directory = setup.path / "checkpoints"
    with progress(config.rounds, start, setup.console) as bar:
        for r in range(start, config.rounds):
            begin = time.perf_counter()
            state, seen = one_round(setup, r, state)
            seconds.append(time.perf_counter() - begin)
            bar.round(r + 1, seconds[-1])
            last = r + 1 == config.rounds
            if last or (r + 1) % config.eval_every == 0:
                record = evaluate(setup, r + 1, state, seen, seconds)
                metrics.append(setup.path / "metrics.jsonl", record)
                bar.evaluated(record)
                seconds = []
            if last or (r + 1) % config.checkpoint_every == 0:
                with finished_first():
                    checkpoint.save(directory, r + 1, state)
    return state


@contextlib.contextmanager
def finished_first() -> Iterator[None]:
    """Holds Ctrl-C back until the block has ended (only the main thread gets it)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def one_round(setup: Setup, r: int, state: State) -> tuple[State, Round]:
    """Training of every cohort and the server's step."""
    exp, run_, at = setup.exp, setup.compiled, jnp.int32(r)
    turnout, down = run_.begin(at, state.server)
    each = [
        train(at, turnout, state.server, clients, setup.pool, shard)
        for train, clients, shard in zip(
            run_.train, state.clients, exp.train, strict=True
        )
    ]
    clients, reports = zip(*each, strict=True)
    server = run_.update(at, state.server, tuple(p.up for p in reports))
    seen = jax.device_get([p._replace(up=()) for p in reports])
    for cohort, p in zip(exp.cohorts, seen, strict=True):
        for k in np.flatnonzero(~p.finite):
            raise Diverged(
                f"round {r + 1}: client {cohort.ids[k]} of cohort {cohort.name!r} has "
                f"loss {p.loss[k]:g} or an upload or weight that is not finite."
            )
    trains = np.asarray(turnout.trains)
    stepped = sum(int((p.steps > 0).sum()) for p in seen)
    loss = sum(float(p.loss.sum()) for p in seen) / max(stepped, 1)
    up = sum(int(p.sent.sum()) for p in seen)
    jax.block_until_ready(server)
    state = State(server, clients)
    return state, Round(loss, int(trains.sum()), up, int(down) * int(trains.sum()))


def evaluate(setup: Setup, r: int, state: State, seen: Round, seconds) -> dict:
    """One record of `metrics.jsonl`: every rule on every client's test data."""
    exp, rows = setup.exp, zip(setup.compiled.evaluate, state.clients, strict=True)
    parts = [
        jax.device_get(f(state.server, clients, setup.pool, shard))
        for (f, clients), shard in zip(rows, exp.test, strict=True)
    ]
    sizes = np.concatenate([np.asarray(s.size) for s in exp.test])
    rules = {
        rule: report.accuracy(np.concatenate([p[rule] for p in parts]), sizes)
        for rule in parts[0]
    }
    look = jax.device_get(setup.compiled.look(state.server))
    return {
        "round": r,
        "rules": rules,
        **seen._asdict(),
        **{name: float(value) for name, value in look.items()},
        "seconds": float(np.mean(seconds)),
    }
