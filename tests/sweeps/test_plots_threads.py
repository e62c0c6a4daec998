"""Cells of a sweep draw their pictures at the same time, each in its own thread."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from matplotlib import mathtext

from jaxproto import plots

THREADS, PICTURES = 3, 4


@pytest.fixture
def impatient():
    """Threads take turns a thousand times as often as they do by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def test_pictures_of_threads_are_those_of_one(tmp_path, impatient, monkeypatch):
    # Nothing is remembered of formulas, nor their parser: each picture parses its own.
    plain = mathtext.MathTextParser._parse_cached.__wrapped__
    monkeypatch.setattr(mathtext.MathTextParser, "_parse_cached", plain)
    counts = np.random.default_rng(0).integers(0, 3000, (PICTURES, 12, 10))

    def draw(k, folder):
        # Its scale of powers of ten is set as formulas.
        plots.partition_heatmap(folder / f"{k}.png", counts[k])

    for name in ("one", "many"):
        (tmp_path / name).mkdir()
    for k in range(PICTURES):
        draw(k, tmp_path / "one")
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(lambda k: draw(k, tmp_path / "many"), range(PICTURES)))
    for k in range(PICTURES):
        one, many = ((tmp_path / n / f"{k}.png").read_bytes() for n in ("one", "many"))
        assert one == many, k
