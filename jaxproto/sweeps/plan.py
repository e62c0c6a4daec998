"""The cells of a sweep before any of them trains: folders, programs, what is there."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_collections

from jaxproto import config as config_
from jaxproto.errors import UserError
from jaxproto.experiment import build, sampler, traced
from jaxproto.experiment.build import Experiment
from jaxproto.storage import checkpoint, default_workdir, workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.sweeps.axes import Axis, cell_changes

FINAL_STATUSES = tuple(
    s for s in Status if s.ended
)  # of `cell_status`: no rounds are left


class Cell(NamedTuple):
    """One configuration of a sweep, and the work directory of its run."""

    changes: dict[str, Any]  # field -> value, of every axis
    config: ml_collections.ConfigDict
    path: Path

    @property
    def name(self) -> str:
        """Its changes, as one writes them."""
        return ", ".join(f"{k}={format_value(v)}" for k, v in self.changes.items())


class ProgramGroup(NamedTuple):
    """Cells that share data and compiled programs."""

    cells: tuple[Cell, ...]
    exp: Experiment  # of the first cell


class Plan(NamedTuple):
    """A sweep whose cells can all train."""

    axes: tuple[Axis, ...]
    groups: tuple[ProgramGroup, ...]
    cells: tuple[Cell, ...]  # the same cells, in the order of the axes
    folder: Path  # of what is made of all cells

    def fields(self) -> dict[str, list]:
        """Every field of the axes with its values, as often as they differ."""
        made: dict[str, list] = {}
        for cell in self.cells:
            for field, value in cell.changes.items():
                seen = made.setdefault(field, [])
                seen += [value] * (value not in seen)
        return made


def format_value(value) -> str:
    """A value as one writes it; no two values alike."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if not isinstance(value, float) or float(text) == value else repr(value)


def plan(
    config: ml_collections.ConfigDict,
    axes: Sequence[Axis],
    outdir: str | Path = "",
    plain: ml_collections.ConfigDict | None = None,
) -> Plan:
    """The cells of a sweep, each of which was checked as a run of its own would be.

    Args:
      config: what all cells have but the fields of the axes.
      axes: from `axes.axes`.
      outdir: holds a folder per cell; "" leaves every cell where a run of its
        configuration alone has its work directory.
      plain: the configuration before overrides, by which `naming.default` names
        folders.

    Raises:
      UserError: names the cell that cannot train; none has begun.
    """
    cells = tuple(
        cell(config, changes, outdir, plain or config) for changes in cell_changes(axes)
    )
    _check_folders(cells)
    groups = tuple(_group(part) for part in _together(cells).values())
    names = "-".join(field.rpartition(".")[2] for a in axes for field in a.fields)
    data = default_workdir.default_workdir(config).name.removesuffix(
        f"-seed{config.seed}"
    )
    folder = Path(outdir) if outdir else Path("sweeps") / f"{data}-{names}"
    return Plan(tuple(axes), groups, cells, folder)


def cell(config, changes: Mapping, outdir: str | Path, plain) -> Cell:
    """A cell of its changes; its configuration is checked.

    Raises:
      UserError: names the cell.
    """
    own = ml_collections.ConfigDict(config.to_dict())
    own.update_from_flattened_dict(dict(changes))
    made = Cell(dict(changes), own, Path())
    with _named(made):
        config_.check(own)
        path = default_workdir.resolve_workdir(own, plain)
    return made._replace(path=Path(outdir) / path.name if outdir else path)


class _named:
    """Says in errors which cell they are of."""

    def __init__(self, cell: Cell):
        self.cell = cell

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, UserError):
            raise UserError(
                f"the cell {self.cell.name} cannot run, so none of the sweep was "
                f"started: {error}"
            ) from error


@contextlib.contextmanager
def errors_named(cell: Cell) -> Iterator[None]:
    """Names the cell in errors of the block; `workdir.WorkdirBusy` stays."""
    try:
        yield
    except workdir.WorkdirBusy:
        raise
    except UserError as e:
        raise UserError(f"the cell {cell.name}: {e}") from e
    except Exception as e:
        e.add_note(f"in the cell {cell.name}")
        raise


def _check_folders(cells: Sequence[Cell]):
    """Raises UserError where two cells have one folder, or one holds another run."""
    owner: dict[Path, Cell] = {}
    for one in cells:
        with _named(one):
            other = owner.setdefault(one.path, one)
            if other is not one:
                raise UserError(
                    f"it has the folder {one.path} of {other.name}; leave one of the "
                    "two out."
                )
            default_workdir.check_path(one.path)
            workdir.check_config(one.path, one.config)


def _together(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells by what their programs and data follow from."""
    found: dict[str, list[Cell]] = {}
    for one in cells:
        settings = traced.program_settings(one.config)
        data = (
            settings,
            one.config.data.data_dir,
            sorted(traced.traced_floats(one.config)),
        )
        found.setdefault(repr(data), []).append(one)
    return found


def _group(cells: Sequence[Cell]) -> ProgramGroup:
    """A group, of which every cell was built."""
    first = cells[0]
    with _named(first):
        tokens = workdir.tokens(first.path)
        exp = build.experiment(first.config, jax.default_backend(), tokens)
        build.check_experiment(exp)
    for one in cells:
        with _named(one):
            build.check_early_stopping_rule(
                experiment(exp, one), one.config.early_stopping.rule
            )
    return ProgramGroup(tuple(cells), exp)


def experiment(exp: Experiment, cell: Cell) -> Experiment:
    """The experiment of a cell from that of another cell of its group."""
    values = traced.traced_floats(cell.config)
    known = {path: config_.flatten(cell.config)[path] for path in values}
    made = exp._replace(floats=values, **exp.parts(known)._asdict())
    _check_room(made)
    return made


def _check_room(exp: Experiment):
    """Raises UserError if a round's arrays have no room for all who can take part."""
    clients, net = len(exp.counts.train), exp.cohorts[0].net
    room = sampler.max_rows_of(exp.method, exp.sampler, net, clients)
    for cohort in exp.cohorts:
        if cohort.num_rows < min(room, len(cohort.ids)):
            raise UserError(
                f"method {exp.method.name!r} draws up to {room} clients by a value "
                "that the sweep varies, but its programs have room for "
                f"{cohort.num_rows}; leave the field out of the axes, or call it "
                "`fraction`."
            )


def select_part(whole: Plan, k: int, n: int) -> Plan:
    """The k-th of n parts of the cells, from 0; cells of a group stay together.

    As many parts as groups are the groups; otherwise the parts have equally many cells.

    Raises:
      UserError: there is no such part.
    """
    if not 0 <= k < n:
        there = (
            f"parts of {n} are 0/{n} to {n - 1}/{n}" if n else "write K/N, as in 0/4"
        )
        raise UserError(f"part {k}/{n} is none: {there}.")
    order = [cell for group in whole.groups for cell in group.cells]
    first, last = (len(order) * i // n for i in (k, k + 1))
    mine = whole.groups[k].cells if n == len(whole.groups) else order[first:last]
    names = {cell.name for cell in mine}
    groups = [
        group._replace(cells=tuple(c for c in group.cells if c.name in names))
        for group in whole.groups
    ]
    cells = tuple(cell for cell in whole.cells if cell.name in names)
    return whole._replace(groups=tuple(g for g in groups if g.cells), cells=cells)


def cell_status(cell: Cell) -> str:
    """What there is of a cell: finished, begun, or nothing."""
    status = RunFolder.at(cell.path).status(cell.config.rounds)
    if status.ended:
        return status
    begun = checkpoint.rounds(cell.path / "checkpoints")
    return f"round {begun[-1]}" if begun else "new"
