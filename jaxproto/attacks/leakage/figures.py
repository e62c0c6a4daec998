"""Plots of the results of attacks."""

from pathlib import Path

import numpy as np

from jaxproto.attacks.leakage.attack_runs import ATTACKS, AttackTable
from jaxproto.lab import plots
from jaxproto.wrappers.privacy import OFF


def draw_attack(name: str, table: AttackTable, folder: Path) -> list[Path]:
    """Draws the success of an attack as a heatmap, and its images if there are any."""
    paths = []
    if table.rows:
        paths.append(folder / f"{name}.png")
        plot_success(name, table.rows, paths[-1])
    if table.images is not None:
        paths.append(folder / f"{name}-images.png")
        by_name, classes = table.images
        names = [str(c) for c in classes]
        grid = [(title, np.clip(x, -1, 1), names) for title, x in by_name.items()]
        title = f"{name}: the first client, class above each image"
        plots.image_grid(paths[-1], grid, title)
    return paths


def plot_success(name: str, rows: list[dict], path: Path):
    """Draws success as a heatmap: methods and sources by formats and noise."""
    attack = ATTACKS[name]
    private = [key for key in ("unit", "epsilon") if key in rows[0]]
    row_lines = [_join(row, ("method", *private, *attack.keys)) for row in rows]
    row_columns = [_join(row, ("format", "noise")) for row in rows]
    lines, columns = list(dict.fromkeys(row_lines)), list(dict.fromkeys(row_columns))
    values = np.full((len(lines), len(columns)), np.nan)
    for row, line, column in zip(rows, row_lines, row_columns, strict=True):
        values[lines.index(line), columns.index(column)] = row[attack.success]
    labels = "format on the wire, noise", "method and source"
    plots.grid_heatmap(
        path, values, lines, columns, labels, f"{name}: {attack.success}"
    )


def _join(row: dict, keys: tuple[str, ...]) -> str:
    pairs = [(k, row[k]) for k in keys if row[k] not in (None, OFF)]
    return ", ".join(_format(*pair) for pair in pairs)


def _format(key: str, value) -> str:
    if key == "epsilon":
        return f"{key} {value:.3g}"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{key} {value}" if isinstance(value, int) else str(value)
