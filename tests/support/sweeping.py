"""Small sweeps, and their plans, made without building the experiments of cells."""

import io
import sys
from functools import partial

import pytest
from rich.console import Console

from jaxproto.lab import sweeps
from jaxproto.lab.sweeps.plan import ProgramGroup
from support.runs import digits

tiny = partial(digits, rounds=2)  # three clients of one perceptron


def planned(given, outdir="", plain=None):
    """Plans a sweep of `tiny`; groups have no experiment, which takes long to build."""
    c = tiny()
    module = sys.modules["jaxproto.lab.sweeps.plan"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_build_group", lambda c: ProgramGroup(tuple(c), None))
        return sweeps.plan(c, sweeps.parse_axes(c, given), outdir, plain)


def console():
    return Console(file=io.StringIO(), width=200)
