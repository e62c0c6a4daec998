"""Small sweeps, and their plans, made without building the experiments of cells."""

import io
import sys

import pytest
from rich.console import Console

from jaxproto import config, sweeps
from jaxproto.sweeps.plan import ProgramGroup
from support.fields import changed


def tiny(rounds=2, **changes):
    """Three clients of one perceptron; `changes` are flat fields, __ for a dot."""
    fields = {"data.clients": 3, "model.group": "mlp", "rounds": rounds}
    return changed(config.experiment("fedproto", "digits"), fields, **changes)


def planned(given, outdir="", plain=None):
    """Plans a sweep of `tiny`; groups have no experiment, which takes long to build."""
    c = tiny()
    module = sys.modules["jaxproto.sweeps.plan"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_build_group", lambda c: ProgramGroup(tuple(c), None))
        return sweeps.plan(c, sweeps.parse_axes(c, given), outdir, plain)


def console():
    return Console(file=io.StringIO(), width=200)
