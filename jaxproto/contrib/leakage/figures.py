"""Pictures of what attacks found."""

from pathlib import Path

import numpy as np

from jaxproto import plots
from jaxproto.contrib.leakage.attacks import ATTACKS, AttackTable, Images
from jaxproto.privacy import OFF


def draw_attack(name: str, made: AttackTable, folder: Path) -> list[Path]:
    """The success of an attack as a heatmap, and images where it makes some."""
    drawn = []
    if made.rows:
        drawn.append(folder / f"{name}.png")
        plot_success(name, made.rows, drawn[-1])
    if made.images is not None:
        drawn.append(folder / f"{name}-images.png")
        plot_images(name, made.images, drawn[-1])
    return drawn


def plot_success(name: str, rows: list[dict], path: Path):
    """Methods and what is attacked down, formats and noise across."""
    attack = ATTACKS[name]
    private = [key for key in ("unit", "epsilon") if key in rows[0]]
    down = [_joined(row, ("method", *private, *attack.keys)) for row in rows]
    across = [_joined(row, ("format", "noise")) for row in rows]
    lines, columns = list(dict.fromkeys(down)), list(dict.fromkeys(across))
    values = np.full((len(lines), len(columns)), np.nan)
    for row, line, column in zip(rows, down, across, strict=True):
        values[lines.index(line), columns.index(column)] = row[attack.success]
    labels = "format on the wire, noise", "method and source"
    plots.grid_heatmap(
        path, values, lines, columns, labels, f"{name}: {attack.success}"
    )


def _joined(row: dict, keys: tuple[str, ...]) -> str:
    there = [(k, row[k]) for k in keys if row[k] not in (None, OFF)]
    return ", ".join(_said(*pair) for pair in there)


def _said(key: str, value) -> str:
    if key == "epsilon":
        return f"{key} {value:.3g}"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{key} {value}" if isinstance(value, int) else str(value)


def plot_images(name: str, made: Images, path: Path):
    """True images above those of public data and those that were found."""
    shown, classes = made
    names = [str(c) for c in classes]
    grid = [(title, np.clip(x, -1, 1), names) for title, x in shown.items()]
    plots.image_grid(path, grid, f"{name}: the first client, class above each image")
