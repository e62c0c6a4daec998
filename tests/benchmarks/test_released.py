"""Methods beside the released code of HtFLlib and PFLlib, whose results are stored."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.released import ours
from benchmarks.released.__main__ import STRIDE

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it
CLOSE = 1e-5  # 1e-7 on the machine of the fixture, 5e-5 for `mu` of MOON 1% away
FILE = Path(__file__).parent.parent / "fixtures" / "released.npz"


def agreement(row, changed=None):
    """Returns the median difference to the released code, as a share of the change.

    That of the round where it is largest.
    """
    trained = ours.train(row, changed)
    first = np.array([ours.flat(params) for params in trained.start.clients])
    with np.load(FILE) as golden:
        away = np.array(trained.rounds)[..., ::STRIDE] - golden[row]
        moved = golden[row] - first[:, ::STRIDE]
        moved[golden[row] == 0] = away[golden[row] == 0] = np.nan  # HeteroFL: not there
    # the median, because another CPU rounds an input of a ReLU across 0 now and then
    away_R, moved_R = (np.nanmedian(np.abs(a), (1, 2)) for a in (away, moved))
    return np.max(away_R / moved_R)


@pytest.mark.parametrize("row", ours.FIELDS)
def test_every_round_ends_where_the_released_code_ends(row):
    assert agreement(row) < CLOSE


def test_a_wrong_option_ends_elsewhere():
    for row in ("fedmrl", "moon", "fedrep"):
        assert agreement(row, ours.MISTAKES[row]) > CLOSE, row
