"""One run: build, compile, rounds with evaluation and checkpoints, summary."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto.config import build
from jaxproto.errors import UserError
from jaxproto.report import pictures, reference
from jaxproto.report import summary as summaries
from jaxproto.storage import checkpoint, records
from jaxproto.storage import workdir as folder
from jaxproto.training import compilation, compiler, memory, program_cache, programs
from jaxproto.training.programs import State
from jaxproto.training.progress import progress, result_table
from jaxproto.training.rounds import Diverged, Work, evaluate, one_round, unwatched


class Run(NamedTuple):
    """What stays the same over the rounds of a run."""

    config: ml_collections.ConfigDict
    path: Path
    work: Work
    compiled: summaries.Compiled
    console: Console


def run(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    console: Console | None = None,
    cache: program_cache.ProgramCache = program_cache.no_cache,
) -> dict:
    """Runs or resumes an experiment; a finished one is left as it is.

    A larger `config.rounds` makes a finished run longer.

    Args:
      config: see `jaxproto.config.default`.
      workdir: folder of the run; "" is `runs/<config>-<dataset>-seed<seed>`.
      console: where progress and tables go.
      cache: which programs outlive the process without being traced again:
        `program_cache.no_cache`, or `disk_cache` where no function can have changed.

    Returns:
      The summary, as in `summary.json`; its `status` is "finished" or "diverged".

    Raises:
      UserError: before training, for anything that cannot work.
    """
    console = console or Console()
    config_.check(config)
    path = Path(workdir or folder.default(config))
    with folder.claim(path):
        folder.check_config(path, config)
        summary = folder.summary(path)
        if summary is None or _longer(config, summary, path):
            summary = _run(config, path, console, cache)
        else:
            _say(console, f"{path} is {summary['status']}: nothing to do.")
    console.print(result_table(summary))
    for line in reference.lines(summary):
        _say(console, line)
    return summary


def _longer(config, summary: dict, path: Path) -> bool:
    """Whether a finished run is to have more rounds.

    Raises:
      UserError: it is, but its last state is not there any more.
    """
    longer = summary["status"] == "finished" and summary["rounds"] < config.rounds
    if longer and not checkpoint.rounds(path / "checkpoints"):
        raise UserError(
            f"{path} is finished after {summary['rounds']} rounds and has no "
            f"checkpoint from which to go on to rounds={config.rounds}. Nothing was "
            "changed. Choose another folder with --workdir."
        )
    return longer


def _run(
    config, path: Path, console: Console, cache: program_cache.ProgramCache
) -> dict:
    compiled_in = compilation.keep_compiled()
    exp = build.experiment(config, jax.default_backend(), folder.tokens(path))
    build.check(exp)
    summaries.partition(exp, path, console)
    examples = build.examples(exp.dataset)
    wrap = cache(compiled_in, config, exp)
    auto = config.clients_at_once == "auto"
    limit = memory.available(jax.devices()[0]) if auto else None
    fits = compiler.compile_to_fit(exp, examples, limit, wrap)
    exp, compiled, seconds, need = fits
    folder.save_tokens(path, exp.dataset.tokens)
    folder.save_config(path, config)  # not before all that can be wrong was tried
    compiled = programs.with_floats(compiled, exp.floats)
    work = Work(exp, examples, compiled, config.seed)
    this = Run(config, path, work, summaries.Compiled(seconds, need), console)
    _say(console, f"needs about {need / 2**20:,.0f} MiB of the device")
    state = programs.init(exp, config.seed, compiled)
    room = unwatched(compiled, state.server, config.eval_every)
    start, state = resume(this, state._replace(watched=room))
    try:
        state = all_rounds(this, start, state)
        status = {"status": "finished"}
    except Diverged as e:
        status = {"status": "diverged", "reason": f"{e} {_way_out(path)}"}
        _say(console, f"diverged: {status['reason']}")
    metrics = records.read(path / "metrics.jsonl")
    summary = summaries.summary(config, exp, metrics, this.compiled, status)
    if status["status"] == "finished":
        trained = pictures.Trained(exp, examples, state.server, state.clients)
        pictures.draw(trained, path, console, config.method.get("upscale", 1.0))
    records.write_json(path / "summary.json", summary)
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


def resume(run: Run, state: State) -> tuple[int, State]:
    """The newest readable checkpoint, with metrics cut to it; else round 0."""
    found = checkpoint.latest(run.path / "checkpoints", state)
    start = 0
    if found is not None:
        start, state, notes = found
        for note in notes:
            _say(run.console, note)
        _say(run.console, f"resuming {run.path} after round {start}")
    records.keep_until(run.path / "metrics.jsonl", start)
    return start, state


def all_rounds(run: Run, start: int, state: State) -> State:
    """The loop over rounds.

    Raises:
      Diverged: names round, cohort and client.
    """
    config, seconds = run.config, []
    directory = run.path / "checkpoints"
    with progress(config.rounds, start, run.console) as bar:
        for r in range(start, config.rounds):
            clock = time.perf_counter()
            state, told = one_round(run.work, r, state)
            seconds.append(time.perf_counter() - clock)
            bar.round(r + 1, seconds[-1])
            last = r + 1 == config.rounds
            if last or (r + 1) % config.eval_every == 0:
                record = evaluate(run.work, r + 1, state, told, seconds)
                records.append(run.path / "metrics.jsonl", record)
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
