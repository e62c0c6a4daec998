"""A sweep from its axes to its table."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
from rich.console import Console

from jaxproto import mesh
from jaxproto.callbacks import makers
from jaxproto.callbacks.registry import Given
from jaxproto.storage import workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.sweeps import execute, live_table, outputs
from jaxproto.sweeps.axes import Given as Axes
from jaxproto.sweeps.axes import axes as parsed
from jaxproto.sweeps.execute import How
from jaxproto.sweeps.plan import Plan, part, plan
from jaxproto.training import programs


class Result(NamedTuple):
    """What a sweep, or a part of it, has trained."""

    plan: Plan  # of the whole sweep
    summaries: dict[str, dict]  # name of a cell -> summary.json, of all that have ended
    files: list[Path]  # table and pictures; none while cells are missing


def sweep(
    config: ml_collections.ConfigDict,
    axes: Axes,
    outdir: str | Path = "",
    console: Console | None = None,
    how: How | None = None,
    *,
    plain: ml_collections.ConfigDict | None = None,
    share: tuple[int, int] = (0, 1),
    callbacks: Sequence[Given] = (),
) -> Result:
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
    console, how = console or Console(), how or How()
    how = how._replace(callbacks=[*how.callbacks, *callbacks])
    makers(how.callbacks)  # before anything trains
    execute.mode(how.cells_at_once, jax.default_backend(), how.cores)
    mesh.chosen(how.devices)
    whole = plan(config, parsed(config, axes), outdir, plain)
    mine = part(whole, *share)
    for line in live_table.plan_lines(mine, bytes_of(whole)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    with live_table.Board(mine, console).shown() as shown:
        execute.train(mine, how, shown, console)
    return result(whole, console)


def result(whole: Plan, console: Console) -> Result:
    """What the folders of the cells hold; table and pictures if all have ended."""
    summaries = ended(whole)
    missing = len(whole.cells) - len(summaries)
    if missing:
        console.print(f"{missing} cells of other parts have not ended yet: no table")
        return Result(whole, summaries, [])
    whole.folder.mkdir(parents=True, exist_ok=True)
    with workdir.alone(whole.folder / ".lock"):  # parts may end at the same time
        return Result(whole, summaries, outputs.write(whole, summaries))


def ended(whole: Plan) -> dict[str, dict]:
    """The summaries of the cells that have ended."""
    runs = ((cell, RunFolder.at(cell.path)) for cell in whole.cells)
    return {
        cell.name: run.summary or {}
        for cell, run in runs
        if run.status(cell.config.rounds).ended
    }


def bytes_of(whole: Plan) -> int:
    """Data and state of one cell of the largest group, by shapes alone."""
    sizes = []
    for group in whole.groups:
        state = programs.shapes(group.exp, 0)
        held = jax.tree.leaves((state.server, state.clients))
        data = group.exp.dataset
        sizes.append(sum(a.size * a.dtype.itemsize for a in held) + data.x.nbytes)
    return max(sizes)
