"""Outputs of a sweep: tidy table, comparison, plots and the best cell."""

import json
import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from jaxproto.config import flatten
from jaxproto.config.fields import fields_where
from jaxproto.errors import first_few
from jaxproto.io import atomic
from jaxproto.lab import compare, plots
from jaxproto.lab.figures import from_records
from jaxproto.lab.sweeps.plan import Cell, Plan, format_value
from jaxproto.storage import records
from jaxproto.storage.status import Status, status_of
from jaxproto.summary import table_formats
from jaxproto.summary.table_formats import TableView

STATISTICS = ("best", "final", "mean_last")


def rows(plan: Plan, summaries: Mapping[str, Mapping]) -> list[dict]:
    """Returns a row per cell, rule, average over clients and statistic.

    Accuracies are from 0 to 1. A cell that diverged before its first evaluation has one
    row without accuracy.
    """
    rows = []
    for cell in plan.cells:
        summary = summaries[cell.name]
        entries = [
            (rule, average, name, _statistic(averages[average], name))
            for rule, averages in summary["rules"].items()
            for average in records.AVERAGES
            for name in STATISTICS
        ]
        for rule, average, name, value in entries or [("", "", "", None)]:
            rows.append(
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
    return rows


def _statistic(digest: Mapping, name: str) -> float | None:
    return records.mean_last(digest)[0] if name == "mean_last" else digest.get(name)


def to_csv(rows: Sequence[Mapping]) -> str:
    """Formats rows as CSV (RFC 4180), with empty fields for missing numbers."""
    head = tuple(dict.fromkeys(key for row in rows for key in row))
    lines = tuple(tuple(map(row.get, head)) for row in rows)
    return table_formats.render(TableView("", head, lines), "csv")


def write(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Path]:
    """Writes `sweep.csv`, `compare.md` and the plots; returns their paths."""
    paths = [plan.folder / "sweep.csv"]
    atomic.write(paths[0], to_csv(rows(plan, summaries)).encode())
    if done := finished(plan, summaries):
        groups = compare.group_by_seed(compare.load(cell.path) for cell in done)
        paths.append(plan.folder / "compare.md")
        table = compare.render(compare.table(groups), "markdown")
        atomic.write(paths[-1], table.encode())
    return paths + pictures(plan, summaries)


def finished(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Cell]:
    """Returns the finished cells, without duplicates of equal seed and settings.

    As in `compare`, names and paths do not count as settings.
    """
    cells: dict[str, Cell] = {}
    ignored = fields_where(compared=False) - {"seed"}
    for cell in plan.cells:
        fields = {k: v for k, v in flatten(cell.config).items() if k not in ignored}
        if status_of(summaries[cell.name]).ok:
            cells.setdefault(json.dumps(fields, sort_keys=True), cell)
    return list(cells.values())


def finished_rules(summaries: Mapping[str, Mapping]) -> dict[str, Mapping]:
    """Returns the accuracies of every finished cell, by its name and by rule."""
    return {k: s["rules"] for k, s in summaries.items() if status_of(s).ok}


def main_rule(done: Mapping[str, Mapping]) -> str:
    """Returns the first rule that every finished cell has, for plots; "" if none."""
    first, *others = done.values() or [{}]
    return next((rule for rule in first if all(rule in r for r in others)), "")


def accuracies(
    done: Mapping[str, Mapping], rule: str, statistic: str = "best"
) -> dict[str, float]:
    """Returns the pooled accuracy in %, by name, of the finished cells that have it."""
    digests = {k: rules[rule]["pooled"] for k, rules in done.items() if rule in rules}
    values = {k: _statistic(digest, statistic) for k, digest in digests.items()}
    return {k: 100 * value for k, value in values.items() if value is not None}


def best_setting(
    plan: Plan, summaries: Mapping[str, Mapping], rule: str
) -> tuple[list[Cell], float] | None:
    """Returns the finished cells of the best setting, and their mean test accuracy.

    Cells that differ only in the seed are one setting. The best setting has the fewest
    diverged seeds, then the highest mean validation accuracy, or test accuracy if a
    cell has no validation examples. Accuracies are in %.
    """
    done = finished_rules(summaries)
    on_test = chosen_on(done, rule) == "test"
    scores = accuracies(done, rule, "best" if on_test else "best_validation")
    ignored, settings = fields_where(compared=False), dict[str, list[Cell]]()
    diverged = Counter[str]()
    for cell in plan.cells:
        setting = repr({k: v for k, v in cell.changes.items() if k not in ignored})
        if cell.name in scores:
            settings.setdefault(setting, []).append(cell)
        elif cell.name in summaries:
            diverged[setting] += 1

    def mean(setting, values):
        return statistics.fmean(values[c.name] for c in settings[setting])

    def merit(setting):
        return -diverged[setting], mean(setting, scores)

    if not settings:
        return None
    best = max(settings, key=merit)
    return settings[best], mean(best, accuracies(done, rule))


def chosen_on(done: Mapping[str, Mapping], rule: str) -> str:
    """Returns the data, test or validation, on which the best cell is chosen."""
    by_cell = [rules[rule] for rules in done.values() if rule in rules]
    return records.chosen_on(averages["pooled"] for averages in by_cell)


def pictures(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Path]:
    """Plots accuracy against each varied field, and a heatmap of two fields."""
    ignored, fields = fields_where(compared=False), plan.fields()
    fields = {k: v for k, v in fields.items() if len(v) > 1 and k not in ignored}
    done = finished(plan, summaries)
    if not plots.available() or not done or not fields:
        return []
    paths = []
    for field in fields:
        paths.append(plan.folder / f"accuracy_against_{field}.png")
        options = {"rule": None, "average": "pooled", "statistic": "best"}
        files = {"workdirs": [cell.path for cell in done], "out": paths[-1]}
        arguments = SimpleNamespace(field=field, **files, **options)
        from_records.accuracy_against_field(arguments)
    rules = finished_rules(summaries)
    if len(fields) == 2 and main_rule(rules):
        paths.append(plan.folder / "heatmap.png")
        _heatmap(paths[-1], done, rules, fields)
    return paths


def _heatmap(path: Path, cells: Sequence[Cell], done: Mapping, fields: Mapping):
    """Plots the best accuracy, averaged over seeds, by the values of two fields."""
    (across, columns), (down, rows) = fields.items()
    rule, means = main_rule(done), np.full((len(rows), len(columns)), np.nan)
    found = accuracies(done, rule)
    for r, c in np.ndindex(means.shape):
        changes = {across: columns[c], down: rows[r]}
        same = [k for k in cells if changes.items() <= k.changes.items()]
        if known := [found[k.name] for k in same if k.name in found]:
            means[r, c] = statistics.fmean(known)
    part = chosen_on(done, rule)
    title = f"test accuracy (%) of rule {rule}, best {part} round, mean over seeds"
    down_names = [format_value(value) for value in rows]
    across_names = [format_value(value) for value in columns]
    labels = (across, down)
    plots.grid_heatmap(path, means, down_names, across_names, labels, title)


def closing_lines(
    plan: Plan, summaries: Mapping[str, Mapping], command: str
) -> list[str]:
    """Returns the last lines: the best setting with a command, and diverged cells.

    Seeds are averaged before the best setting is chosen.

    Args:
      summaries: Summaries of ended cells by name.
      command: Command of the configuration without a sweep, such as "jaxproto run
        --config=protonorm:digits".
    """
    lines, done = [], finished_rules(summaries)
    rule = main_rule(done)
    complete = all(cell.name in summaries for cell in plan.cells)
    so_far = "" if complete else " so far"  # other parts
    best = best_setting(plan, summaries, rule)
    if best is not None:
        (first, *others), value = best
        ignored = fields_where(compared=False) if others else ()
        shown = {k: v for k, v in first.changes.items() if k not in ignored}
        name = ", ".join(f"{k}={format_value(v)}" for k, v in shown.items())
        mean = f", mean of {1 + len(others)} seeds" if others else ""
        setting = name or "the configuration"
        part = chosen_on(done, rule)
        chosen = f"the best {part} round, chosen on {part} data"
        what = f"best{so_far} by rule {rule} ({chosen})"
        lines.append(f"{what}: {value:.2f} % with {setting}{mean}:")
        changes = [
            f"--config.{k}={shlex.quote(str(v))}" for k, v in first.changes.items()
        ]
        workdir = f"--workdir={shlex.quote(str(first.path))}"
        lines.append("  " + " ".join([command, *changes, workdir]))
    states = {name: status_of(summary) for name, summary in summaries.items()}
    diverged = [name for name, state in states.items() if state is Status.DIVERGED]
    if diverged:
        lines.append(f"{len(diverged)} diverged: {first_few(diverged)}")
    return lines
