"""Programs of one round, side by side in threads of the host."""

import os
import threading
from functools import partial

import pytest

from jaxproto.training.threads import run_parallel


class Result:
    """As JAX's arrays: there at once, and ready when the other is waited for too."""

    both, ready = threading.Barrier(2), False

    def block_until_ready(self):
        self.both.wait(20.0)
        self.ready = True
        return self


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_programs_that_return_before_they_end_run_side_by_side():
    assert [r.ready for r in run_parallel([partial(Result)] * 2)] == [True, True]
