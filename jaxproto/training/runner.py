"""One run: build, compile, rounds with evaluation and checkpoints, summary."""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto import mesh as devices_
from jaxproto.callbacks import Callback, make_callbacks
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.storage import default_workdir
from jaxproto.storage import workdir as folder
from jaxproto.summary import progress_lines, reference_accuracy
from jaxproto.summary import run_summary as summaries
from jaxproto.training import (
    compiler,
    data_placement,
    device_memory,
    multihost,
    privacy_ledger,
    program_cache,
    programs,
    xla_cache,
)
from jaxproto.training.lifecycle import Run, Start, existing, resume, say
from jaxproto.training.loop import LocalEngine, train_rounds
from jaxproto.training.programs import Programs, State
from jaxproto.training.progress import metrics_table, result_table
from jaxproto.training.rounds import RoundEnvironment, empty_history
from jaxproto.training.stores import open_store
from jaxproto.types import Examples


class PreparedRun(NamedTuple):
    """What a run needs besides its state; runs of other seeds and floats share it."""

    exp: Experiment
    examples: Examples
    programs: Programs  # without floats
    took: summaries.CompileStats
    placed: data_placement.PlacedData | None = None  # on several devices


def run(
    config: ml_collections.ConfigDict,
    workdir: str | Path = "",
    console: Console | None = None,
    *,
    cache: program_cache.ProgramCache = program_cache.no_cache,
    grace: float = 0.0,
    devices: str = "",
    callbacks: Sequence[str | Callback] = (),
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
      devices: see `jaxproto.mesh.parse_devices`; no number of the run depends on it,
        but for the rounding of sums over clients.
      callbacks: told of the run (`writers.Callback`), and names of `writers.WRITERS`;
        not of one that has ended.

    Returns:
      The summary, as in `summary.json`; its `status` is "finished", "stopped
      early" or "diverged".

    Raises:
      UserError: before training, for anything that cannot work; a folder that it did
        not come to use stays as it was. Later, if a file cannot be written.
      stopping.Stopped: SIGTERM came, and the round that was running is saved.
    """
    console = (
        Console(quiet=True) if not multihost.is_primary() else console or Console()
    )
    config_.check(config)
    listening = make_callbacks(callbacks) if multihost.is_primary() else []
    layout = devices_.parse_devices(devices)
    home = Path(workdir or default_workdir.default_workdir(config))
    with multihost.claimed(home, folder.lock_workdir) as (path, claimed, shared):
        start = Start(
            config=config,
            path=path,
            console=console,
            grace=grace,
            claimed=claimed,
            callbacks=listening,
            layout=layout,
            home=shared,
        )
        multihost.check_equal("configuration", config.to_json())
        summary = multihost.broadcast_result(lambda: existing(start))
        if summary is None:
            ready = multihost.raise_everywhere(lambda: prepare(start, cache))
            summary = train(start, ready)
        else:
            say(console, f"{path} is {summary['status']}: nothing to do.")
    console.print(result_table(summary))
    if (further := metrics_table(summary)) is not None:
        console.print(further)
    for line in reference_accuracy.reference_lines(summary):
        say(console, line)
    return summary


def prepare(start: Start, cache: program_cache.ProgramCache) -> PreparedRun:
    """Data and compiled programs, once all that can be wrong was tried.

    Raises:
      UserError: for anything that cannot work.
    """
    compiled_in = xla_cache.enable_xla_cache()
    tokens = folder.tokens(start.path)
    config, layout = start.config, start.layout
    exp = build.experiment(config, jax.default_backend(), tokens, layout)
    build.check_experiment(exp)
    build.check_early_stopping_rule(exp, config.early_stopping.rule)
    multihost.check(exp)
    summaries.partition(exp, start.path, start.console)
    if layout is devices_.ONE:
        wrap, examples = cache(compiled_in, config, exp), build.examples(exp.dataset)
        return compile_programs(start.console, exp, examples, wrap)
    say(start.console, data_placement.describe_layout(exp))
    placed = data_placement.place_data(exp)  # exported programs are of one device
    prepared = compile_programs(
        start.console, exp, placed.examples, program_cache.uncached
    )
    return prepared._replace(placed=placed)


def compile_programs(
    console: Console, exp: Experiment, examples: Examples, wrap
) -> PreparedRun:
    """Programs in the form that fits into memory."""
    limit = device_memory.available_bytes(jax.local_devices()[0]) if exp.fit else None
    total = len(jax.tree.leaves(programs.build_programs(exp)))
    shown = progress_lines.progress_line(console, "compiling", "programs", total)
    with progress_lines.warn_uncached_once(console), shown as done:
        fits = compiler.compile_to_fit(exp, examples, limit, wrap, done)
    exp, prepared, seconds, need = fits
    say(console, f"needs about {need / 2**20:,.0f} MiB of the device")
    return PreparedRun(exp, examples, prepared, summaries.CompileStats(seconds, need))


def train(start: Start, ready: PreparedRun) -> dict:
    """The summary after all rounds.

    Raises:
      Stopped: as `run`.
    """
    this, first, state = restore_or_init(start, ready)
    with contextlib.closing(this.work.store):
        (summary,) = train_rounds([this], LocalEngine(this.work), first, [state])
    return summary


def restore_or_init(start: Start, ready: PreparedRun) -> tuple[Run, int, State]:
    """A run before its first round, or after the last one that was saved.

    Raises:
      UserError: there are checkpoints, and none can be used.
    """
    config, path, exp = start.config, start.path, ready.exp
    folder.save_tokens(path, exp.dataset.tokens)
    due = folder.expected_rounds(path, config)  # by the configuration that is there
    folder.save_config(path, config)  # not before all that can be wrong was tried
    start.claimed.keep()
    place = partial(programs.replicate, exp)
    compiled = programs.with_floats(ready.programs, exp.floats, place)
    store = open_store(exp, compiled, config.seed, path, ready.placed, start.home)
    this = Run(
        config=config,
        path=path,
        work=RoundEnvironment(exp, ready.examples, compiled, config.seed, store),
        compiled=ready.took,
        console=start.console,
        grace=start.grace,
        shown=start.shown,
        told=start.listeners(),
        spent=privacy_ledger.privacy_ledger(config, exp),
    )
    state = programs.init(exp, config.seed, compiled)
    room = empty_history(compiled, state.server, config.eval_every)
    return this, *resume(this, state._replace(watched=room), due)
