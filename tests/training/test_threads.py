"""Programs of one round, side by side in threads of the host."""

import os
import threading
from functools import partial

import pytest

from jaxproto.training.threads import run_parallel

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")


class Result:
    """As JAX's arrays: there at once, and ready when as many wait as `both` says."""

    def __init__(self, both: threading.Barrier, number: int):
        self.both, self.number, self.ready = both, number, False

    def block_until_ready(self):
        self.both.wait(20.0)
        self.ready = True
        return self


def test_programs_that_return_before_they_end_run_side_by_side():
    both = threading.Barrier(2)
    found = run_parallel([partial(Result, both=both, number=n) for n in range(2)])
    assert [(r.number, r.ready) for r in found] == [(0, True), (1, True)]
