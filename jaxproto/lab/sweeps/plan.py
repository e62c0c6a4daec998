"""Plan of a sweep: its cells, their folders and their program groups."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_collections

from jaxproto.config import check, flatten
from jaxproto.errors import UserError
from jaxproto.experiment import build, traced
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.check import (
    check_early_stopping_rule,
    check_evaluated,
    check_experiment,
)
from jaxproto.lab.sweeps.axes import Axis, cell_changes
from jaxproto.round import participation
from jaxproto.storage import checkpoint, default_workdir, workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary.run_summary import check_same

FINAL_STATUSES = tuple(status for status in Status if status.ended)
UNUSABLE = " cannot run, so none of the sweep was started"


class Cell(NamedTuple):
    """One configuration of a sweep, with the directory of its run."""

    changes: dict[str, Any]  # value by field of every axis
    config: ml_collections.ConfigDict
    path: Path

    @property
    def name(self) -> str:
        """Returns the changes of the cell, as text."""
        return ", ".join(f"{k}={format_value(v)}" for k, v in self.changes.items())


class ProgramGroup(NamedTuple):
    """Cells that share data and compiled programs."""

    cells: tuple[Cell, ...]
    exp: Experiment  # of the first cell


class Plan(NamedTuple):
    """Checked sweep: all cells can train."""

    axes: tuple[Axis, ...]
    groups: tuple[ProgramGroup, ...]
    cells: tuple[Cell, ...]  # cells of all groups, in the order of the axes
    folder: Path  # of the outputs of all cells

    def fields(self) -> dict[str, list]:
        """Returns every field of the axes with its distinct values."""
        rows = [cell.changes for cell in self.cells]
        return {k: list(dict.fromkeys(row[k] for row in rows)) for k in rows[0]}


def format_value(value) -> str:
    """Formats a value as short text, distinct for distinct values."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if not isinstance(value, float) or float(text) == value else repr(value)


def plan(
    config: ml_collections.ConfigDict,
    axes: Sequence[Axis],
    outdir: str | Path = "",
    plain: ml_collections.ConfigDict | None = None,
    same_code: bool = False,
) -> Plan:
    """Plans a sweep and checks every cell like a single run.

    Args:
      config: Configuration of all cells, except for the fields of the axes.
      axes: Axes from `parse_axes`.
      outdir: Folder with a folder per cell; "" takes the default run directory of each
        cell.
      plain: Configuration before overrides, from which `default_workdir` derives names
        of folders.
      same_code: Whether begun cells go on with other code of the user.

    Raises:
      UserError: names the cell that cannot train; no cell has begun.
    """
    cells = tuple(
        cell(config, changes, outdir, plain or config, same_code)
        for changes in cell_changes(axes)
    )
    _check_folders(cells, same_code)
    groups = tuple(_build_group(members) for members in _group_cells(cells).values())
    names = "-".join(field.rpartition(".")[2] for a in axes for field in a.fields)
    run_name = default_workdir.default_workdir(config).name
    data = run_name.removesuffix(f"-seed{config.seed}")
    folder = Path(outdir) if outdir else Path("sweeps") / f"{data}-{names}"
    return Plan(tuple(axes), groups, cells, folder)


def cell(config, changes: Mapping, outdir: str | Path, plain, same_code: bool) -> Cell:
    """Returns a cell with checked configuration."""
    changed = ml_collections.ConfigDict(config.to_dict())
    changed.update_from_flattened_dict(dict(changes))
    new = Cell(dict(changes), changed, Path())
    with errors_named(new, UNUSABLE):
        check(changed)
        if outdir:
            path = Path(outdir) / default_workdir.default_workdir(changed, plain).name
        else:
            path = default_workdir.resolve_workdir(changed, plain)
            path = default_workdir.for_code(path, changed, same_code)
    return new._replace(path=path)


@contextlib.contextmanager
def errors_named(cell: Cell, what: str = "") -> Iterator[None]:
    """Adds the cell's name and a clause to errors, except `workdir.WorkdirBusy`."""
    try:
        yield
    except workdir.WorkdirBusy:
        raise
    except UserError as e:
        raise UserError(f"the cell {cell.name}{what}: {e}") from e
    except Exception as e:
        e.add_note(f"in the cell {cell.name}")
        raise


def _check_folders(cells: Sequence[Cell], same_code: bool):
    """Raises UserError if two cells share a folder, or one has that of another run."""
    owners: dict[Path, Cell] = {}
    for cell in cells:
        with errors_named(cell, UNUSABLE):
            other = owners.setdefault(cell.path, cell)
            if other is not cell:
                raise UserError(
                    f"it has the folder {cell.path} of {other.name}; leave one of the "
                    "two out."
                )
            default_workdir.check_path(cell.path)
            workdir.check_config(cell.path, cell.config, same_code)


def _group_cells(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Groups cells by the settings that determine their programs and data."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        settings = traced.program_settings(cell.config)
        floats = sorted(traced.traced_floats(cell.config))
        key = repr((settings, cell.config.data.data_dir, floats))
        groups.setdefault(key, []).append(cell)
    return groups


def _build_group(cells: Sequence[Cell]) -> ProgramGroup:
    """Builds the experiment of a group and checks every cell."""
    first = cells[0]
    with errors_named(first, UNUSABLE):
        tokens = workdir.tokens(first.path)
        exp = build.experiment(first.config, jax.default_backend(), tokens)
        check_experiment(exp)
    for cell in cells:
        with errors_named(cell, UNUSABLE):
            own = experiment(exp, cell)
            check_evaluated(own)
            check_early_stopping_rule(own, cell.config.early_stopping.rule)
            if not RunFolder.at(cell.path).status(cell.config.rounds).ended:
                check_same(own, cell.path)
    return ProgramGroup(tuple(cells), exp)


def experiment(exp: Experiment, cell: Cell) -> Experiment:
    """Returns the experiment of a cell, from that of the first cell of its group."""
    values = traced.traced_floats(cell.config)
    floats = {path: flatten(cell.config)[path] for path in values}
    parts = exp.parts({**exp.floats, **floats})
    exp = exp._replace(floats={**exp.floats, **values}, **parts._asdict())
    _check_rows(exp)
    return exp


def _check_rows(exp: Experiment):
    """Raises UserError if more clients can take part than the programs have rows."""
    clients, net = len(exp.counts.train), exp.cohorts[0].net
    max_rows = participation.max_rows_of(exp.method, exp.sampler, net, clients)
    for cohort in exp.cohorts:
        if cohort.num_rows < min(max_rows, len(cohort.ids)):
            raise UserError(
                f"method {exp.method.name!r} draws up to {max_rows} clients by a value "
                "that the sweep varies, but its programs have room for "
                f"{cohort.num_rows}; leave the field out of the axes, or call it "
                "`fraction`."
            )


def select_part(whole: Plan, k: int, n: int) -> Plan:
    """Returns part k, from 0, of n parts of the cells, in the order of groups.

    If there are n groups, each part is a group; otherwise parts have equal sizes, up to
    one cell.
    """
    if not 0 <= k < n:
        valid = (
            f"parts of {n} are 0/{n} to {n - 1}/{n}" if n else "write K/N, as in 0/4"
        )
        raise UserError(f"part {k}/{n} is none: {valid}.")
    order = [cell for group in whole.groups for cell in group.cells]
    first, last = (len(order) * i // n for i in (k, k + 1))
    chosen = whole.groups[k].cells if n == len(whole.groups) else order[first:last]
    names = {cell.name for cell in chosen}
    groups = [
        group._replace(cells=tuple(c for c in group.cells if c.name in names))
        for group in whole.groups
    ]
    cells = tuple(cell for cell in whole.cells if cell.name in names)
    return whole._replace(groups=tuple(g for g in groups if g.cells), cells=cells)


def cell_status(cell: Cell) -> str:
    """Returns the final status of a cell, its last saved round, or new."""
    status = RunFolder.at(cell.path).status(cell.config.rounds)
    if status.ended:
        return status
    begun = checkpoint.rounds(cell.path / "checkpoints")
    return f"round {begun[-1]}" if begun else "new"
