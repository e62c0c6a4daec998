"""Sweep over a configuration, from its axes to its table."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto.callbacks import callback_factories
from jaxproto.callbacks.registry import CallbackSpec, as_list
from jaxproto.config import from_name
from jaxproto.devices import mesh
from jaxproto.lab.sweeps import execute, live_table, outputs
from jaxproto.lab.sweeps.axes import AxesSpec, parse_axes
from jaxproto.lab.sweeps.execute import SweepOptions
from jaxproto.lab.sweeps.plan import Plan, plan, select_part
from jaxproto.storage import file_lock, workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary.progress_lines import make_console, say
from jaxproto.training import programs


class SweepResult(NamedTuple):
    """Result of a sweep or of a part of it."""

    plan: Plan  # of the complete sweep
    summaries: dict[str, dict]  # summary.json of ended cells, by name
    files: list[Path]  # table and plots; none while cells are missing


def sweep(
    config: ml_collections.ConfigDict | str,
    axes: AxesSpec,
    outdir: str | Path = "",
    console: Console | None = None,
    how: SweepOptions | None = None,
    *,
    plain: ml_collections.ConfigDict | None = None,
    share: tuple[int, int] = (0, 1),
    callbacks: Sequence[CallbackSpec] = (),
    same_code: bool = False,
) -> SweepResult:
    """Trains every cell of a sweep; finished cells stay as they are.

    >>> import tempfile, jaxproto
    >>> from jaxproto import config
    >>> c = config.experiment("fedproto", "digits")
    >>> c.rounds, c.data.clients, c.model.group = 1, 3, "mlp"
    >>> axes = {"seed": [0, 1], "method.lam": [1.0, 10.0]}
    >>> done = jaxproto.sweep(c, axes, tempfile.mkdtemp(), quiet)
    >>> len(done.plan.groups), len(done.summaries)
    (1, 4)

    Args:
      config: Configuration that the cells have in common, or the name of one.
      axes: {field: values} or texts as of `--sweep`; see `lab/sweeps/axes.py`.
      outdir: Folder of run directories, table and plots; "" is `runs/` for the cells
        and `sweeps/<config>-<dataset>-<fields>` for the rest.
      console: Console that shows the plan and the live table.
      how: Execution options, such as the number of cells at once.
      plain: Configuration before overrides, for names of folders; see
        `default_workdir`.
      share: (k, n) trains the k-th of n parts of the cells, from 0.
      callbacks: As in `jaxproto.run`, but classes, functions that make a callback, or
        names of writers, since each cell makes its own.
      same_code: Whether begun cells go on although code of yours has changed.

    Raises:
      UserError: before the first cell trains, if any cell cannot; later, if a file
        cannot be written.
      signals.StoppedBySignal: SIGTERM came; the running rounds are saved.
    """
    console, how = console or make_console(), how or SweepOptions()
    config = from_name(config)
    mesh.available_devices()
    how = how._replace(
        callbacks=[*how.callbacks, *as_list(callbacks)],
        same_code=how.same_code or same_code,
    )
    callback_factories(how.callbacks)  # raises errors before a cell trains
    execute.check_options(how)
    whole = plan(config, parse_axes(config, axes), outdir, plain, how.same_code)
    part = select_part(whole, *share)
    for line in live_table.plan_lines(part, bytes_per_cell(whole)):
        say(console, line)
    with live_table.LiveTable(part, console).live() as table:
        execute.train(part, how, table, console)
    return result(whole, console)


def result(whole: Plan, console: Console) -> SweepResult:
    """Collects the summaries of cells; writes table and plots if all have ended."""
    runs = ((cell, RunFolder.at(cell.path)) for cell in whole.cells)
    summaries = {
        cell.name: run.summary or {}
        for cell, run in runs
        if run.status(cell.config.rounds).ended
    }
    missing = len(whole.cells) - len(summaries)
    if missing:
        console.print(f"{missing} cells of other parts have not ended yet: no table")
        return SweepResult(whole, summaries, [])
    whole.folder.mkdir(parents=True, exist_ok=True)
    lock = whole.folder / workdir.LOCK  # parts may end at the same time
    with file_lock.exclusive_lock(lock, partial(say, console), "writes the table"):
        return SweepResult(whole, summaries, outputs.write(whole, summaries))


def bytes_per_cell(whole: Plan) -> int:
    """Returns the bytes of data and state of a cell of the largest group."""
    sizes = []
    for group in whole.groups:
        state = programs.shapes(group.exp, 0)
        leaves = jax.tree.leaves((state.server, state.clients))
        state_bytes = sum(a.size * a.dtype.itemsize for a in leaves)
        sizes.append(state_bytes + group.exp.dataset.x.nbytes)
    return max(sizes)
