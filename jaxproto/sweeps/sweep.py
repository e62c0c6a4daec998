"""A sweep from its axes to its table."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto import mesh
from jaxproto.callbacks import callback_factories
from jaxproto.callbacks.registry import CallbackSpec
from jaxproto.storage import workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.sweeps import execute, live_table, outputs
from jaxproto.sweeps.axes import Given as Axes
from jaxproto.sweeps.axes import axes as parsed
from jaxproto.sweeps.execute import SweepOptions
from jaxproto.sweeps.plan import Plan, plan, select_part
from jaxproto.training import programs


class SweepResult(NamedTuple):
    """What a sweep, or a part of it, has trained."""

    plan: Plan  # of the whole sweep
    summaries: dict[str, dict]  # name of a cell -> summary.json, of all that have ended
    files: list[Path]  # table and pictures; none while cells are missing


def sweep(
    config: ml_collections.ConfigDict,
    axes: Axes,
    outdir: str | Path = "",
    console: Console | None = None,
    how: SweepOptions | None = None,
    *,
    plain: ml_collections.ConfigDict | None = None,
    share: tuple[int, int] = (0, 1),
    callbacks: Sequence[CallbackSpec] = (),
) -> SweepResult:
    """Trains every cell of a sweep; what is finished already stays as it is.

    >>> import tempfile, jaxproto
    >>> from jaxproto import config
    >>> c = config.experiment("fedproto", "digits")
    >>> c.rounds, c.data.clients, c.model.group = 1, 3, "mlp"
    >>> axes = {"seed": [0, 1], "method.lam": [1.0, 10.0]}
    >>> done = jaxproto.sweep(c, axes, tempfile.mkdtemp(), quiet)
    >>> len(done.plan.groups), len(done.summaries)
    (1, 4)

    Args:
      config: what the cells have in common.
      axes: {field: values} or texts as of `--sweep`; see `sweeps.axes`.
      outdir: holds a work directory per cell, the table and the pictures; "" is
        `runs/` for the cells and `sweeps/<config>-<dataset>-<fields>` for the rest.
      console: where the plan and the live table go.
      how: form of execution, program cache, and grace after SIGTERM.
      plain: the configuration that names folders, see `naming.default`.
      share: (k, n) trains the k-th of n parts of the cells, from 0.
      callbacks: as of `jaxproto.run`, but each cell makes its own: give classes, or
        functions that make one, and names of writers.

    Raises:
      UserError: before the first cell trains, for anything that cannot work in any of
        them; later, if a file cannot be written.
      stopping.Stopped: SIGTERM came, and the rounds that were running are saved.
    """
    console, how = console or Console(), how or SweepOptions()
    how = how._replace(callbacks=[*how.callbacks, *callbacks])
    callback_factories(how.callbacks)  # before anything trains
    execute.execution_mode(how.cells_at_once, jax.default_backend(), how.cores)
    mesh.parse_devices(how.devices)
    whole = plan(config, parsed(config, axes), outdir, plain)
    mine = select_part(whole, *share)
    for line in live_table.plan_lines(mine, bytes_per_cell(whole)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    with live_table.LiveTable(mine, console).shown() as shown:
        execute.train(mine, how, shown, console)
    return result(whole, console)


def result(whole: Plan, console: Console) -> SweepResult:
    """What the folders of the cells hold; table and pictures if all have ended."""
    summaries = ended_summaries(whole)
    missing = len(whole.cells) - len(summaries)
    if missing:
        console.print(f"{missing} cells of other parts have not ended yet: no table")
        return SweepResult(whole, summaries, [])
    whole.folder.mkdir(parents=True, exist_ok=True)
    with workdir.exclusive_lock(
        whole.folder / ".lock"
    ):  # parts may end at the same time
        return SweepResult(whole, summaries, outputs.write(whole, summaries))


def ended_summaries(whole: Plan) -> dict[str, dict]:
    """The summaries of the cells that have ended."""
    runs = ((cell, RunFolder.at(cell.path)) for cell in whole.cells)
    return {
        cell.name: run.summary or {}
        for cell, run in runs
        if run.status(cell.config.rounds).ended
    }


def bytes_per_cell(whole: Plan) -> int:
    """Data and state of one cell of the largest group, by shapes alone."""
    sizes = []
    for group in whole.groups:
        state = programs.shapes(group.exp, 0)
        held = jax.tree.leaves((state.server, state.clients))
        data = group.exp.dataset
        sizes.append(sum(a.size * a.dtype.itemsize for a in held) + data.x.nbytes)
    return max(sizes)
