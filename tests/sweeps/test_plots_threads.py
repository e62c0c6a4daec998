"""Cells of a sweep draw their pictures at the same time, each in its own thread."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from matplotlib import mathtext

from jaxproto.plots import style

THREADS, PICTURES = 3, 6


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

    def draw(k, name):
        with style.new_figure(tmp_path / name / f"{k}.png", (2.0, 2.0)) as figure:
            figure.subplots().set_title(rf"$\times 10^{{{k}}}$")
        return (tmp_path / name / f"{k}.png").read_bytes()

    for name in ("one", "many"):
        (tmp_path / name).mkdir()
    one = [draw(k, "one") for k in range(PICTURES)]
    with ThreadPoolExecutor(THREADS) as pool:
        assert [*pool.map(lambda k: draw(k, "many"), range(PICTURES))] == one
    assert len({*one}) == PICTURES
