"""One run: builds, compiles, trains and summarises an experiment."""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto.callbacks import Callback, make_callbacks
from jaxproto.config import check, from_name
from jaxproto.core.types import Examples
from jaxproto.data.readers import npz
from jaxproto.devices.mesh import ONE, available_devices, parse_devices
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.check import check_experiment
from jaxproto.storage import provenance
from jaxproto.storage.default_workdir import default_workdir, for_code
from jaxproto.storage.workdir import tokens
from jaxproto.summary import progress_lines, reference_accuracy, run_summary, sanity
from jaxproto.summary.progress_lines import make_console, print_table, say
from jaxproto.training import (
    compiler,
    data_placement,
    processes,
    program_cache,
    programs,
    xla_cache,
)
from jaxproto.training.data_placement import PlacedTables
from jaxproto.training.debug_nans import locate_nans
from jaxproto.training.engine import LocalEngine
from jaxproto.training.lifecycle import Start, ended_line, finished_summary
from jaxproto.training.loop import train_rounds
from jaxproto.training.programs import Programs
from jaxproto.training.progress import metrics_table, result_table
from jaxproto.training.rounds import initial_state
from jaxproto.training.run import Run
from jaxproto.training.stores import open_store


class PreparedRun(NamedTuple):
    """Data and programs of a run, which runs of other seeds and floats share."""

    exp: Experiment
    examples: Examples
    tables: PlacedTables | None
    programs: Programs  # without floats
    compile_stats: run_summary.CompileStats


def run(
    config: ml_collections.ConfigDict | Mapping | str | os.PathLike,
    workdir: str | Path = "",
    console: Console | None = None,
    *,
    cache: bool = False,
    grace: float = 0.0,
    devices: str = "",
    callbacks: Sequence[str | Callback] = (),
    data: Sequence | None = None,
    same_code: bool = False,
) -> dict:
    """Runs or resumes an experiment; a finished run stays as it is.

    A larger `config.rounds` extends a finished run. A run that a callback has stopped
    goes on with more rounds, or without this callback.

    Args:
      config: Configuration, a dict of all its fields, or the name or file of one, such
        as "protonorm:digits".
      workdir: Folder of the run; "" is `runs/<config>-<dataset>-seed<seed>`, or a
        folder beside it if that one has a run of other code.
      console: Console of progress and tables.
      cache: Whether traced programs are kept on disk for other processes; only for a
        process that changes no function of the package.
      grace: Seconds that a round may take after SIGTERM, to be saved; needs
        `signals.install_signal_handlers`.
      devices: See `jaxproto.devices.mesh.parse_devices`; numbers of the run depend on
        it only in the rounding of sums over clients.
      callbacks: Objects with methods of `Callback`, or names of `callbacks.WRITERS`,
        also one alone or "csv,tensorboard"; a finished run does not call them.
      data: Arrays (x, y) or (x, y, x_test, y_test) in place of `data.name`, as npz
        files hold them; they are written into the work directory.
      same_code: Whether a begun run goes on although code of yours has changed, such as
        its method.

    Returns:
      The summary, as in `summary.json`; its `status` is "finished", "stopped early" or
      "diverged".

    Raises:
      UserError: The run cannot work; raised before training, without changes to an
        unused folder. Later, if a file cannot be written.
      signals.StoppedBySignal: SIGTERM came, and the running round is saved.
    """
    available_devices()  # checks JAX_PLATFORMS first
    primary = processes.is_primary()
    console = (console or make_console()) if primary else Console(quiet=True)
    config = from_name(config)
    if data is not None:
        file, content = npz.encode(data)
        config = config.copy_and_resolve_references()
        config.data.name = f"npz:{file}"
    check(config)
    home = Path(workdir or default_workdir(config))
    if not workdir:
        home = for_code(home, config, same_code, partial(say, console))
    if data is not None:
        config.data.data_dir = str(home.absolute())
    callback_objects = make_callbacks(callbacks) if primary else []
    layout = parse_devices(devices)
    with processes.locked_workdir(home) as (path, lock, shared):
        start = Start(
            config=config,
            path=path,
            console=console,
            grace=grace,
            lock=lock,
            callbacks=callback_objects,
            layout=layout,
            home=shared,
            same_code=same_code,
        )
        processes.check_equal("configuration", config.to_json())
        processes.check_equal("code", json.dumps(provenance.current(config)))

        def begin() -> dict | None:
            if data is not None:
                lock.write(file, content)
            return finished_summary(start)

        summary = processes.broadcast_result(begin)
        if summary is None:
            prepared = processes.raise_everywhere(lambda: prepare(start, cache))
            summary = train(start, prepared)
        else:
            say(console, ended_line(path, summary))
    if summary["rules"]:  # none if it diverged before an evaluation
        _print_results(console, summary)
    for line in sanity.warning_lines(summary.get("warnings", [])):
        say(console, line)
    say(console, f"results: {home}")
    return summary


def _print_results(console: Console, summary: dict):
    print_table(console, result_table(summary))
    if (metrics := metrics_table(summary)) is not None:
        print_table(console, metrics)
    for line in reference_accuracy.reference_lines(summary):
        say(console, line)


def prepare(start: Start, cache: bool) -> PreparedRun:
    """Checks an experiment, and compiles its programs.

    Raises:
      UserError: The run cannot work.
    """
    cache_folder = xla_cache.enable_xla_cache()
    config, layout, vocabulary = start.config, start.layout, tokens(start.path)
    exp = build.experiment(config, jax.default_backend(), vocabulary, layout)
    check_experiment(exp, config.early_stopping.rule)
    processes.check(exp)
    say(start.console, f"device: {jax.devices()[0].device_kind}")
    run_summary.partition(exp, start.path, start.console)
    wrap = program_cache.disk_cache(cache_folder if cache else None, config, exp)
    if layout is not ONE:
        say(start.console, data_placement.describe_layout(exp))
    return compile_programs(start.console, exp, wrap)


def compile_programs(
    console: Console, exp: Experiment, wrap: program_cache.ProgramWrapper
) -> PreparedRun:
    """Places the data, and compiles the programs in a form that fits into memory."""
    examples, tables = data_placement.place_data(exp)
    limit = compiler.memory_limit(exp)
    total = len(jax.tree.leaves(programs.build_programs(exp)))
    progress = progress_lines.progress_line(console, "compiling", "programs", total)
    with progress_lines.warn_uncached_once(console), progress as done:
        exp, compiled, seconds, need = compiler.compile_to_fit(
            exp, examples, limit, wrap, done
        )
    say(console, f"needs about {need / 2**20:,.0f} MiB of the device")
    stats = run_summary.CompileStats(seconds, need)
    return PreparedRun(exp, examples, tables, compiled, stats)


def train(start: Start, prepared: PreparedRun) -> dict:
    """Trains all rounds; returns the summary.

    Raises:
      signals.StoppedBySignal: SIGTERM came, and the running round is saved.
    """
    run, engine = restore_or_init(start, prepared)
    with contextlib.closing(run.store):
        (summary,) = train_rounds([run], engine)
    return summary


def restore_or_init(start: Start, prepared: PreparedRun) -> tuple[Run, LocalEngine]:
    """Returns a run with its saved or new state, and its engine.

    Raises:
      UserError: The folder has checkpoints, and none is valid.
    """
    config, path, exp = start.config, start.path, prepared.exp
    start.claim_folder(exp.dataset.tokens)
    compiled = programs.with_floats(prepared.programs, exp.floats, exp.layout.put)
    compiled = locate_nans(compiled, partial(programs.plain_programs, exp))
    store = open_store(exp, compiled, config.seed, path, prepared.tables, start.home)
    state = initial_state(exp, config.seed, compiled, config.eval_every)
    run = Run(start, exp, store, state, prepared.compile_stats)
    return run, LocalEngine(exp, prepared.examples, compiled, config.seed, store)
