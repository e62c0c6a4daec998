"""Methods beside released code, whose results are stored."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.released import ours, workload
from benchmarks.released.__main__ import STRIDE

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it
CLOSE = 1e-5  # 1e-7 on the machine of the fixture, 5e-5 for `mu` of MOON 1% away
FILE = Path(__file__).parent.parent / "fixtures" / "released.npz"


def agreement(row, changed=None):
    """Returns the largest median difference of a round, as a share of the change."""
    trained = ours.train(row, changed)
    first = np.array([ours.flat(params) for params in trained.start.clients])
    with np.load(FILE) as golden:
        every = zip(trained.rounds, golden[row], strict=True)
    cut = ((np.array(o)[:, ::STRIDE], g, first[:, ::STRIDE]) for o, g in every)
    return np.max([share(*three) for three in cut])  # NaN if any is


def share(ours_KP, golden_KP, first_KP):
    away_KP, moved_KP = abs(ours_KP - golden_KP), abs(golden_KP - first_KP)
    # without what no side has (HeteroFL) or has trained (FAST)
    seen_KP = (away_KP > 0) | (golden_KP != 0) & (moved_KP > 0)
    # the median, because another CPU rounds an input of a ReLU across 0 now and then
    medians = [np.median(a[seen_KP]) for a in (away_KP, moved_KP) if seen_KP.any()]
    return medians[0] / medians[1] if medians else 0.0


@pytest.mark.parametrize("row", workload.ROWS)
def test_every_round_ends_where_the_released_code_ends(row):
    assert agreement(row) < CLOSE


def test_a_wrong_option_ends_elsewhere():
    for row in ("fedmrl", "fedtgp", "moon", "protonorm", "tinyproto"):
        assert agreement(row, workload.ROWS[row].mistake) > CLOSE, row
