"""Outputs of a sweep: tidy table, comparison, plots and the best cell."""

import json
import shlex
import statistics
from collections import Counter
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
from jaxproto.summary import table_formats
from jaxproto.summary.table_formats import TableView
from jaxproto.sweeps.plan import Cell, Plan, format_value

STATISTICS = ("best", "final", "mean_last")


def rows(plan: Plan, summaries: Mapping[str, Mapping]) -> list[dict]:
    """Returns a row per cell, rule, average over clients and statistic.

    Accuracies are from 0 to 1. A cell that diverged before its first evaluation has one
    row without accuracy.
    """
    rows = []
    for cell in plan.cells:
        summary = summaries[cell.name]
        for rule, average, name, value in _accuracies(summary["rules"]):
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


def _accuracies(rules: Mapping) -> Iterator[tuple[str, str, str, float | None]]:
    """Yields rule, average, statistic and accuracy; one empty entry without records."""
    if not rules:
        yield "", "", "", None
    for rule, averages in rules.items():
        for average in records.AVERAGES:
            for name in STATISTICS:
                yield rule, average, name, _statistic(averages[average], name)


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
    table = comparison(plan, summaries)
    if table:
        paths.append(plan.folder / "compare.md")
        atomic.write(paths[-1], table.encode())
    return paths + pictures(plan, summaries)


def comparison(plan: Plan, summaries: Mapping[str, Mapping]) -> str:
    """Returns the table of `jaxproto compare`, with mean and std over seeds."""
    done = finished(plan, summaries)
    if not done:
        return ""
    groups = compare.group_by_seed(compare.load(cell.path) for cell in done)
    return compare.render(compare.table(groups), "markdown")


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


def finished_rules(summaries: Mapping[str, Mapping]) -> list[Mapping]:
    """Returns the accuracies of every finished cell, by rule."""
    return [s["rules"] for s in summaries.values() if status_of(s).ok]


def main_rule(summaries: Mapping[str, Mapping]) -> str:
    """Returns the first rule that every finished cell has, for plots; "" if none."""
    done = finished_rules(summaries)
    common = [rule for rule in done[0] if all(rule in r for r in done)] if done else []
    return common[0] if common else ""


def accuracy(summary: Mapping, rule: str, statistic: str = "best") -> float | None:
    """Returns the pooled accuracy of a cell in %; None if there is none.

    A cell that has not finished has none.
    """
    averages = summary["rules"].get(rule)
    if not status_of(summary).ok or averages is None:
        return None
    value = _statistic(averages["pooled"], statistic)
    return None if value is None else 100 * value


def best_setting(
    plan: Plan, summaries: Mapping[str, Mapping], rule: str
) -> tuple[list[Cell], float] | None:
    """Returns the finished cells of the best setting, and their mean test accuracy.

    Cells that differ only in the seed are one setting. The best setting has the fewest
    diverged seeds, then the highest mean validation accuracy, or test accuracy if a
    cell has no validation examples. Accuracies are in %.
    """
    on_test = chosen_on(summaries, rule) == "test"
    statistic = "best" if on_test else "best_validation"
    scores = {k: accuracy(s, rule, statistic) for k, s in summaries.items()}
    ignored, settings = fields_where(compared=False), dict[str, list[Cell]]()
    diverged = Counter[str]()
    for cell in plan.cells:
        setting = repr({k: v for k, v in cell.changes.items() if k not in ignored})
        if scores.get(cell.name) is not None:
            settings.setdefault(setting, []).append(cell)
        elif cell.name in summaries:
            diverged[setting] += 1

    def mean(setting, values):
        return statistics.fmean(values[c.name] or 0.0 for c in settings[setting])

    def merit(setting):
        return -diverged[setting], mean(setting, scores)

    if not settings:
        return None
    best = max(settings, key=merit)
    tested = {k: accuracy(s, rule) for k, s in summaries.items()}
    return settings[best], mean(best, tested)


def chosen_on(summaries: Mapping[str, Mapping], rule: str) -> str:
    """Returns the data, test or validation, on which the best cell is chosen."""
    by_cell = [rules[rule] for rules in finished_rules(summaries) if rule in rules]
    return records.chosen_on(averages["pooled"] for averages in by_cell)


def pictures(plan: Plan, summaries: Mapping[str, Mapping]) -> list[Path]:
    """Plots accuracy against each varied field, and a heatmap of two fields."""
    varied = {k: values for k, values in plan.fields().items() if len(values) > 1}
    ignored = fields_where(compared=False)
    fields = {k: v for k, v in varied.items() if k not in ignored}
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
    if len(fields) == 2 and main_rule(summaries):
        paths.append(plan.folder / "heatmap.png")
        _heatmap(paths[-1], done, summaries, fields)
    return paths


def _heatmap(path: Path, cells: Sequence[Cell], summaries, fields: Mapping):
    """Plots the best accuracy, averaged over seeds, by the values of two fields."""
    (across, columns), (down, rows) = fields.items()
    rule, means = main_rule(summaries), np.full((len(rows), len(columns)), np.nan)
    for r, c in np.ndindex(means.shape):
        changes = {across: columns[c], down: rows[r]}
        accuracies = [
            accuracy(summaries[cell.name], rule)
            for cell in cells
            if changes.items() <= cell.changes.items()
        ]
        known = [value for value in accuracies if value is not None]
        means[r, c] = statistics.fmean(known) if known else np.nan
    part = chosen_on(summaries, rule)
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
    lines, rule = [], main_rule(summaries)
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
        part = chosen_on(summaries, rule)
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
