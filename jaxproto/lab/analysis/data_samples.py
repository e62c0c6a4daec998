"""Some training examples of the first clients: images, points or texts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import rich.table
from rich.markup import escape

from jaxproto.core.types import PADDING
from jaxproto.experiment.build import Experiment
from jaxproto.lab import plots

CLIENTS = 20  # at most, in a picture
IMAGES = 10  # at most, of a client
POINTS = 500  # of a client; twice as many of all clients, in grey in every panel
TEXTS = (5, 3)  # clients, and texts of each
LETTERS = 100  # at most, of a text


def rows_of(exp: Experiment, client: int, limit: int) -> np.ndarray:
    """Returns random rows of training examples of a client, sorted by class."""
    rows = exp.partition.train[client]
    drawn = np.random.default_rng([client]).permutation(rows)[:limit]
    return drawn[np.argsort(exp.dataset.y[drawn], kind="stable")]


def shown_clients(exp: Experiment) -> list[int]:
    """Returns the first clients that have training examples."""
    return [k for k, rows in enumerate(exp.partition.train) if len(rows)][:CLIENTS]


def client_title(exp: Experiment, client: int) -> str:
    """Returns the client and its number of training examples."""
    return f"client {client} ({len(exp.partition.train[client]):,})"


def draw(exp: Experiment, path: Path):
    """Draws a grid of images, or of planes in which features are points."""
    (_draw_images if exp.dataset.x.ndim == 4 else _draw_points)(exp, path)


def _draw_images(exp, path):
    dataset, clients = exp.dataset, len(exp.partition.train)
    names = dataset.class_names()
    shown = shown_clients(exp)
    grid = []
    for k in shown:
        rows = rows_of(exp, k, IMAGES)
        classes = [names[c] for c in dataset.y[rows]]
        grid.append((client_title(exp, k), dataset.x[rows], classes))
    which = f"the first {len(shown)} of " * (len(shown) < clients)
    title = f"training examples of {which}{clients} clients, drawn at random"
    plots.image_grid(path, grid, title)


def _draw_points(exp, path):
    dataset = exp.dataset
    shown = shown_clients(exp)
    limit = 2 * POINTS // len(shown)
    all_rows = np.concatenate([rows_of(exp, k, limit) for k in shown])
    points, axis_names = to_2d(dataset.x[all_rows])
    panels = []
    for k in shown:
        rows = rows_of(exp, k, POINTS)
        panels.append((client_title(exp, k), points(dataset.x[rows]), dataset.y[rows]))
    classes = dataset.classes or [f"class {c}" for c in range(dataset.num_classes)]
    behind_N2 = points(dataset.x[all_rows])
    plots.scatter_grid(path, panels, behind_N2, classes, axis_names)


def to_2d(x: np.ndarray) -> tuple[Callable, tuple[str, str]]:
    """Returns a map from features to points, and the names of the coordinates.

    Two features are the coordinates. One feature gets a random second coordinate. More
    are mapped to two principal components (scikit-learn's PCA, fitted to `x`).
    """
    flat_ND = x.reshape(len(x), -1)
    if flat_ND.shape[1] == 1:
        return _spread, ("feature", "(at random)")
    if flat_ND.shape[1] == 2 or not np.ptp(flat_ND, axis=0).any():  # all are equal
        return lambda x: x.reshape(len(x), -1)[:, :2], ("feature 1", "feature 2")
    from sklearn.decomposition import PCA  # imported here, as it takes a second

    pca = PCA(2, random_state=0).fit(flat_ND)
    shares = pca.explained_variance_ratio_
    first, second = (
        f"principal component {i + 1} ({s:.0%})" for i, s in enumerate(shares)
    )
    return lambda x: pca.transform(x.reshape(len(x), -1)), (first, second)


def _spread(x):
    return np.stack([x.reshape(-1), np.random.default_rng(0).random(len(x))], 1)


def table(exp: Experiment) -> rich.table.Table:
    """Returns the known words of texts of the first clients, shortened."""
    dataset, (num_clients, num_texts) = exp.dataset, TEXTS
    names = dataset.class_names()
    view = rich.table.Table(title="Training texts, drawn at random")
    for name in ("client", "class", "text"):
        view.add_column(name, no_wrap=name != "text")
    for client in range(min(len(exp.partition.train), num_clients)):
        for row in rows_of(exp, client, num_texts):
            words = [dataset.tokens[t] for t in dataset.x[row] if t != PADDING]
            text = " ".join(words)
            text = text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
            label = escape(names[dataset.y[row]])
            view.add_row(str(client), label, escape(text or "(no word)"))
        view.add_section()
    return view
