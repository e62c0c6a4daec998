"""Runs, configurations and checkpoints of earlier versions load and go on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from jaxproto import compare, config
from jaxproto.saved import opened
from jaxproto.storage import checkpoint
from jaxproto.training import runner

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

# configs/protonorm.py:spiral, 4 clients, 2 rounds, as commit 03d3868 wrote it
OLD = Path(__file__).parents[1] / "fixtures" / "run_of_03d3868"


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(OLD, tmp_path / "run"))


def test_a_run_of_an_earlier_version_goes_on_to_where_one_of_this_comes(old, tmp_path):
    before = (old / "metrics.jsonl").read_text()
    again = opened.configuration(old)
    assert again.model.init == "independent"  # a field that did not exist then
    again.rounds = 4
    new, went_on = (
        runner.run(again, path, Console(quiet=True)) for path in (tmp_path / "new", old)
    )
    assert went_on["status"] == "finished" and went_on["rounds"] == 4
    after = (old / "metrics.jsonl").read_text()
    assert after.startswith(before) and len(after.splitlines()) == 4
    assert checkpoint.rounds(old / "checkpoints")[-1] == 4
    assert new["rules"].keys() == went_on["rules"].keys()
    for rule in new["rules"]:
        pair = (run["rules"][rule]["pooled"]["final"] for run in (new, went_on))
        assert np.abs(np.subtract(*pair)) < 0.02


def test_its_state_is_read_and_its_records_are_compared(old):
    """And its configuration has every field of today."""
    run = opened.load(old)
    assert run.round == 2 and sorted(run.state.clients[0].id.tolist()) == [0, 1, 2, 3]
    assert np.isfinite(np.asarray(run.state.server.protos.mean)).all()
    table = compare.table(compare.groups([compare.load(old)]))
    assert "ProtoNorm" in compare.render(table, "csv")
    found = config.saved(json.loads((old / "config.json").read_text()))
    today = {**config.flat(config.default()), "method.name": "protonorm"}
    assert {*today} <= {*found} and found["method.reg"] == "l2_of_means"
