"""One run: build, compile, rounds with evaluation and checkpoints, summary."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto.config import build
from jaxproto.config.build import Experiment
from jaxproto.errors import UserError
from jaxproto.report import pictures, reference, stages
from jaxproto.report import summary as summaries
from jaxproto.storage import checkpoint, records
from jaxproto.storage import workdir as folder
from jaxproto.training import compilation, memory, program_cache, programs, stopping
from jaxproto.training.programs import State
from jaxproto.training.progress import progress, result_table
from jaxproto.training.rounds import Diverged, Work, evaluate, one_round, unwatched
from jaxproto.training.stopping import Stopped


class Run(NamedTuple):
    """What stays the same over the rounds of a run."""

    config: ml_collections.ConfigDict
    path: Path
    work: Work
    compiled: summaries.Compiled
    console: Console
    grace: float


class Start(NamedTuple):
    """What a run is begun with."""

    config: ml_collections.ConfigDict
    path: Path
    console: Console
    grace: float
    claimed: folder.Claim


def run(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    console: Console | None = None,
    cache: program_cache.ProgramCache = program_cache.no_cache,
    grace: float = 0.0,
) -> dict:
    """Runs or resumes an experiment; a finished one is left as it is.

    A larger `config.rounds` makes a finished run longer.

    Args:
      config: see `jaxproto.config.default`.
      workdir: folder of the run; "" is `runs/<config>-<dataset>-seed<seed>`.
      console: where progress and tables go.
      cache: which programs outlive the process without being traced again:
        `program_cache.no_cache`, or `disk_cache` where no function can have changed.
      grace: seconds that a round may still take after SIGTERM, to be saved; in a
        process that `stopping.watch`es.

    Returns:
      The summary, as in `summary.json`; its `status` is "finished" or "diverged".

    Raises:
      UserError: before training, for anything that cannot work; a folder that it did
        not come to use stays as it was. Later, if a file cannot be written.
      stopping.Stopped: SIGTERM came, and the round that was running is saved.
    """
    console = console or Console()
    config_.check(config)
    path = Path(workdir or folder.default(config))
    with folder.claim(path) as claimed:
        folder.check_config(path, config)
        summary = folder.summary(path)
        if summary is None or _longer(config, summary, path):
            start = Start(config, path, console, grace, claimed)
            summary = _run(start, cache)
        else:
            folder.check_whole(path, config, summary["rounds"])
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


def _run(start: Start, cache: program_cache.ProgramCache) -> dict:
    config, path, console = start.config, start.path, start.console
    compiled_in = compilation.keep_compiled()
    exp = build.experiment(config, jax.default_backend(), folder.tokens(path))
    build.check(exp)
    summaries.partition(exp, path, console)
    examples = build.examples(exp.dataset)
    kept = cache(compiled_in, config, exp)
    exp, state, compiled, took = _compile(start, exp, examples, kept)
    folder.save_tokens(path, exp.dataset.tokens)
    due = folder.due(path, config)  # by the configuration that is there
    folder.save_config(path, config)  # not before all that can be wrong was tried
    start.claimed.keep()
    work = Work(exp, examples, compiled, config.seed)
    this = Run(config, path, work, took, console, start.grace)
    room = unwatched(compiled, state.server, config.eval_every)
    first, state = resume(this, state._replace(watched=room), due)
    try:
        state = all_rounds(this, first, state)
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


def _compile(start: Start, exp: Experiment, examples, wrap):
    """The experiment in the form that fits, its first state and its programs."""
    config, console = start.config, start.console
    auto = config.clients_at_once == "auto"
    limit = memory.available(jax.devices()[0]) if auto else None
    total = len(exp.cohorts) + 1 + len(jax.tree.leaves(programs.functions(exp)))
    shown = stages.counted(console, "compiling", "programs", total)
    with stages.unkept_programs(console), shown as done:
        state = programs.init(exp, config.seed, wrap, done)
        fits = programs.compile_to_fit(exp, state, examples, limit, wrap, done)
    exp, compiled, seconds, need = fits
    _say(console, f"needs about {need / 2**20:,.0f} MiB of the device")
    return exp, state, compiled, summaries.Compiled(seconds, need)


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


def resume(run: Run, state: State, due: Sequence[int]) -> tuple[int, State]:
    """The newest checkpoint that can be used, with metrics cut to it; else round 0.

    Args:
      due: rounds whose record must be in the metrics, as far as the run has come.

    Raises:
      UserError: there are checkpoints, and none can be used.
    """
    directory, metrics = run.path / "checkpoints", run.path / "metrics.jsonl"
    covered, settings = records.covered(metrics, due), folder.settings(run.config)
    found = checkpoint.latest(directory, state, settings, covered)
    start = 0
    if found is not None:
        start, state, notes = found
        for note in notes:
            _say(run.console, note)
        _say(run.console, f"resuming {run.path} after round {start}")
        checkpoint.sweep(directory, start)
    records.keep_until(metrics, start)
    return start, state


def all_rounds(run: Run, start: int, state: State) -> State:
    """The loop over rounds.

    Raises:
      Diverged: names round, cohort and client.
      Stopped: as `run`.
    """
    config, seconds = run.config, []
    directory, settings = run.path / "checkpoints", folder.settings(config)
    shown = progress(config.rounds, start, run.console)
    with stopping.rounds(run.grace) as asked, shown as bar:
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
            stop = asked()
            if last or stop or (r + 1) % config.checkpoint_every == 0:
                with stopping.finished_first():
                    checkpoint.save(directory, r + 1, state, settings)
            if stop:
                raise Stopped(f"round {r + 1} is saved, the same command goes on")
    return state
