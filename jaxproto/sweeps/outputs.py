"""What is made of all cells: a tidy table, the comparison, pictures, the best cell."""

import csv
import io
import json
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from jaxproto import plots
from jaxproto.config import flatten
from jaxproto.config.fields import fields_where
from jaxproto.errors import first_few
from jaxproto.io import atomic
from jaxproto.reporting import compare
from jaxproto.reporting.figures import from_records
from jaxproto.storage import records
from jaxproto.storage.status import Status, status_of
from jaxproto.sweeps.plan import Cell, Plan, format_value

AVERAGES = ("pooled", "client_mean")
STATISTICS = ("best", "final", "mean_last")


def rows(plan: Plan, summaries: Mapping[str, Mapping]) -> list[dict]:
    """A row per cell, rule, average over clients and statistic; shares from 0 to 1.

    A cell that has diverged before its first evaluation has one row without a number.
    """
    made = []
    for cell in plan.cells:
        summary = summaries[cell.name]
        for rule, average, name, value in _numbers(summary["rules"]):
            made.append(
                {
                    **cell.changes,
                    "status": summary["status"],
                    "rounds": summary["rounds"],
                    "rule": rule,
                    "average": average,
                    "statistic": name,
                    "accuracy": value,
                    "workdir": str(cell.path),
                }
            )
    return made


def _numbers(rules: Mapping) -> Iterator[tuple[str, str, str, float | None]]:
    """Rule, average, statistic and accuracy; one without, if there is no record."""
    if not rules:
        yield "", "", "", None
    for rule, kinds in rules.items():
        for average in AVERAGES:
            for name in STATISTICS:
                yield rule, average, name, _statistic(kinds[average], name)


def _statistic(digest: Mapping, name: str) -> float | None:
    return records.mean_last(digest)[0] if name == "mean_last" else digest[name]


def to_csv(made: Sequence[Mapping]) -> str:
    """Rows as CSV (RFC 4180), an empty field where there is no number."""
    out = io.StringIO()
    fields = list(dict.fromkeys(key for row in made for key in row))
    writer = csv.DictWriter(out, fields, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(made)
    return out.getvalue()


def write(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Path]:
    """Writes `sweep.csv`, `compare.md` and the pictures; returns their paths."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    made = [plan.folder / "sweep.csv"]
    atomic.write(made[0], to_csv(rows(plan, summaries)).encode())
    table = comparison(plan, summaries)
    if table:
        made.append(plan.folder / "compare.md")
        atomic.write(made[-1], table.encode())
    return made + pictures(plan, summaries)


def comparison(plan: Plan, summaries: Mapping[str, Mapping]) -> str:
    """The table of `jaxproto compare`, with mean and std over seeds."""
    done = finished(plan, summaries)
    if not done:
        return ""
    groups = compare.group_by_seed(compare.load(cell.path) for cell in done)
    return compare.render(compare.table(groups), "markdown")


def finished(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Cell]:
    """The finished cells; of those with one seed and the same settings the first.

    Settings as `compare` takes them: without names and places.
    """
    found: dict[str, Cell] = {}
    silent = fields_where(compared=False) - {"seed"}
    for cell in plan.cells:
        fields = {k: v for k, v in flatten(cell.config).items() if k not in silent}
        if status_of(summaries[cell.name]).ok:
            found.setdefault(json.dumps(fields, sort_keys=True), cell)
    return list(found.values())


def main_rule(summaries: Mapping[str, Mapping]) -> str:
    """The rule of the pictures: the first that every finished cell has; "" if none."""
    done = [s["rules"] for s in summaries.values() if status_of(s).ok]
    common = [rule for rule in done[0] if all(rule in r for r in done)] if done else []
    return common[0] if common else ""


def accuracy(summary: Mapping, rule: str, statistic: str = "best") -> float | None:
    """Of a finished cell in %, pooled over samples; None if there is none."""
    kinds = summary["rules"].get(rule)
    if not status_of(summary).ok or kinds is None:
        return None
    found = _statistic(kinds["pooled"], statistic)
    return None if found is None else 100 * found


def best_cell(plan: Plan, summaries: Mapping[str, Mapping], rule: str) -> Cell | None:
    """The finished cell of the highest accuracy by a rule."""
    there = [cell for cell in plan.cells if cell.name in summaries]
    of = {cell.name: accuracy(summaries[cell.name], rule) for cell in there}
    known = [cell for cell in there if of[cell.name] is not None]
    return max(known, key=lambda cell: of[cell.name] or 0.0, default=None)


def pictures(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Path]:
    """Accuracy against every field with several values; a heatmap of two fields."""
    several = {k: values for k, values in plan.fields().items() if len(values) > 1}
    ignored = fields_where(compared=False)
    fields = {k: v for k, v in several.items() if k not in ignored}
    done = finished(plan, summaries)
    if not plots.available() or not done or not fields:
        return []
    made = []
    for field in fields:
        made.append(plan.folder / f"accuracy_against_{field}.png")
        from_records.accuracy_against_field(_arguments(done, field, made[-1]))
    if len(fields) == 2 and main_rule(summaries):
        made.append(plan.folder / "heatmap.png")
        _heatmap(made[-1], done, summaries, fields)
    return made


def _arguments(cells: Sequence[Cell], field: str, out: Path) -> SimpleNamespace:
    """As of the command line of `jaxproto plot`."""
    given = {"rule": None, "average": "pooled", "statistic": "best", "field": field}
    return SimpleNamespace(workdirs=[c.path for c in cells], out=out, **given)


def _heatmap(path: Path, cells: Sequence[Cell], summaries, fields: Mapping):
    """Mean over seeds of the best accuracy, a row and a column per value."""
    (across, columns), (down, rows) = fields.items()
    rule, table = main_rule(summaries), np.full((len(rows), len(columns)), np.nan)
    for r, c in np.ndindex(table.shape):
        want = {across: columns[c], down: rows[r]}
        found = [
            accuracy(summaries[cell.name], rule)
            for cell in cells
            if want.items() <= cell.changes.items()
        ]
        known = [value for value in found if value is not None]
        table[r, c] = statistics.fmean(known) if known else np.nan
    title = f"best test accuracy (%) of rule {rule}, mean over seeds"
    down_names, across_names = (
        [format_value(v) for v in part] for part in (rows, columns)
    )
    labels = (across, down)
    plots.grid_heatmap(path, table, down_names, across_names, labels, title)


def closing_lines(
    plan: Plan, summaries: Mapping[str, Mapping], command: str
) -> list[str]:
    """The last lines: the best cell with its command, and what has diverged.

    Args:
      plan: of the whole sweep.
      summaries: of the cells that have ended.
      command: of the configuration without a sweep, such as "python main.py
        --config=configs/protonorm.py:digits".
    """
    told, rule = [], main_rule(summaries)
    there = tuple(cell for cell in plan.cells if cell.name in summaries)
    so_far = "" if len(there) == len(plan.cells) else " so far"  # other parts
    plan = plan._replace(cells=there)
    top = best_cell(plan, summaries, rule)
    if top is not None:
        value = accuracy(summaries[top.name], rule)
        changes = [
            f"--config.{k}={shlex.quote(str(v))}" for k, v in top.changes.items()
        ]
        told.append(f"best{so_far} by rule {rule}: {value:.2f} % with {top.name}:")
        where = f"--workdir={shlex.quote(str(top.path))}"
        told.append("  " + " ".join([command, *changes, where]))
    lost = [name for name, s in summaries.items() if status_of(s) is Status.DIVERGED]
    if lost:
        told.append(f"{len(lost)} diverged: {first_few(lost)}")
    return told
