"""One run: build, compile, rounds with evaluation and checkpoints, summary."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
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
from jaxproto.storage import checkpoint, naming, records
from jaxproto.storage import workdir as folder
from jaxproto.training import (
    compilation,
    compiler,
    memory,
    program_cache,
    programs,
    stopping,
)
from jaxproto.training.evaluation import Outcome, columns, outcome, record
from jaxproto.training.programs import Programs, State
from jaxproto.training.progress import progress, result_table
from jaxproto.training.rounds import Diverged, Round, Work, one_round, unwatched
from jaxproto.training.stopping import Stopped
from jaxproto.training.store import load_rows, open_store
from jaxproto.types import Examples


class Run(NamedTuple):
    """What stays the same over the rounds of a run."""

    config: ml_collections.ConfigDict
    path: Path
    work: Work
    compiled: summaries.Compiled
    console: Console
    grace: float
    shown: Callable


class Start(NamedTuple):
    """What a run is begun with."""

    config: ml_collections.ConfigDict
    path: Path
    console: Console
    grace: float
    claimed: folder.Claim
    shown: Callable = progress  # rounds, those done, console -> told of each round


class Ready(NamedTuple):
    """What a run needs besides its state; runs of other seeds and floats share it."""

    exp: Experiment
    examples: Examples
    programs: Programs  # without floats
    took: summaries.Compiled


FINISHED = {"status": "finished"}


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
    path = Path(workdir or naming.default(config))
    with folder.claim(path) as claimed:
        start = Start(config, path, console, grace, claimed)
        summary = existing(start)
        if summary is None:
            summary = trained(start, prepare(start, cache))
        else:
            _say(console, f"{path} is {summary['status']}: nothing to do.")
    console.print(result_table(summary))
    for line in reference.lines(summary):
        _say(console, line)
    return summary


def existing(start: Start) -> dict | None:
    """The summary of a run that has ended; None if there are rounds to train.

    Raises:
      UserError: the folder holds another run, or one that is damaged.
    """
    config, path = start.config, start.path
    folder.check_config(path, config)
    summary = folder.summary(path)
    if summary is None or _longer(config, summary, path):
        return None
    folder.check_whole(path, config, summary["rounds"])
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


def prepare(start: Start, cache: program_cache.ProgramCache) -> Ready:
    """Data and compiled programs, once all that can be wrong was tried.

    Raises:
      UserError: for anything that cannot work.
    """
    compiled_in = compilation.keep_compiled()
    tokens = folder.tokens(start.path)
    exp = build.experiment(start.config, jax.default_backend(), tokens)
    build.check(exp)
    summaries.partition(exp, start.path, start.console)
    examples = build.examples(exp.dataset)
    return compiled(start.console, exp, examples, cache(compiled_in, start.config, exp))


def compiled(console: Console, exp: Experiment, examples: Examples, wrap) -> Ready:
    """Programs in the form that fits into memory."""
    limit = memory.available(jax.devices()[0]) if exp.fit else None
    total = len(jax.tree.leaves(programs.functions(exp)))
    shown = stages.counted(console, "compiling", "programs", total)
    with stages.unkept_programs(console), shown as done:
        fits = compiler.compile_to_fit(exp, examples, limit, wrap, done)
    exp, made, seconds, need = fits
    _say(console, f"needs about {need / 2**20:,.0f} MiB of the device")
    return Ready(exp, examples, made, summaries.Compiled(seconds, need))


def trained(start: Start, ready: Ready) -> dict:
    """The summary after all rounds.

    Raises:
      Stopped: as `run`.
    """
    this, first, state = begin(start, ready)
    with this.work.store or contextlib.nullcontext():
        try:
            state = all_rounds(this, first, state)
        except Diverged as e:
            return ended(this, state, diverged(this, e))
        return ended(this, state, FINISHED)


def begin(start: Start, ready: Ready) -> tuple[Run, int, State]:
    """A run before its first round, or after the last one that was saved.

    Raises:
      UserError: there are checkpoints, and none can be used.
    """
    config, path, exp = start.config, start.path, ready.exp
    folder.save_tokens(path, exp.dataset.tokens)
    due = folder.due(path, config)  # by the configuration that is there
    folder.save_config(path, config)  # not before all that can be wrong was tried
    start.claimed.keep()
    own = programs.with_floats(ready.programs, exp.floats)
    store = open_store(exp, own, config.seed, path)
    work = Work(exp, ready.examples, own, config.seed, store)
    this = Run(config, path, work, ready.took, start.console, start.grace, start.shown)
    state = programs.init(exp, config.seed, own)
    room = unwatched(own, state.server, config.eval_every)
    return this, *resume(this, state._replace(watched=room), due)


def diverged(run: Run, error: Diverged) -> dict:
    """How a run ended that has diverged, with the way out."""
    reason = f"{error} {_way_out(run.path)}"
    _say(run.console, f"diverged: {reason}")
    return {"status": "diverged", "reason": reason}


def ended(run: Run, state: State, status: Mapping) -> dict:
    """Writes pictures and `summary.json`; returns the summary."""
    exp, path, console = run.work.exp, run.path, run.console
    metrics = records.read(path / "metrics.jsonl")
    summary = summaries.summary(run.config, exp, metrics, run.compiled, status)
    if status == FINISHED:
        trained = pictures.Trained(exp, run.work.examples, state.server, state.clients)
        pictures.draw(trained, path, console, run.config.method.get("upscale", 1.0))
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
        load_rows(run.work.store, directory / str(start))
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
    shown = run.shown(config.rounds, start, run.console)
    with stopping.rounds(run.grace) as asked, shown as bar:
        for r in range(start, config.rounds):
            clock = time.perf_counter()
            state, told = one_round(run.work, r, state)
            seconds.append(time.perf_counter() - clock)
            bar.round(r + 1, seconds[-1])
            last = r + 1 == config.rounds
            if last or (r + 1) % config.eval_every == 0:
                found = outcome(run.work, state.server, state.clients)
                bar.evaluated(recorded(run, r + 1, state, told, seconds, found))
                seconds = []
            stop = asked()
            if last or stop or (r + 1) % config.checkpoint_every == 0:
                keep(run, r + 1, state)
            if stop:
                raise Stopped(f"round {r + 1} is saved, the same command goes on")
    return state


def recorded(run: Run, r: int, state: State, last: Round, seconds, found: Outcome):
    """Writes what a round and an evaluation said; returns the record."""
    exp = run.work.exp
    made = record(exp, r, state, last, seconds, found)
    if run.config.eval.per_client:
        columns_ = columns(exp, last, found)
        records.write_columns(run.path / "per_client" / f"{r:06}.npz", columns_)
    records.append(run.path / "metrics.jsonl", made)
    return made


def keep(run: Run, r: int, state: State):
    """Writes a checkpoint; Ctrl-C waits until it is whole."""
    directory, settings = run.path / "checkpoints", folder.settings(run.config)
    store = run.work.store
    with stopping.finished_first():
        rows = None if store is None else store.changes()
        checkpoint.save(directory, r, state, settings, rows)
        if store is not None:
            store.saved(r)
