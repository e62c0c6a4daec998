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
def quiet():
    return Console(quiet=True)


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(OLD, tmp_path / "run"))


def test_a_run_of_an_earlier_version_goes_on(old, quiet):
    before = (old / "metrics.jsonl").read_text()
    again = opened.configuration(old)
    assert again.model.init == "independent"  # a field that did not exist then
    again.rounds = 4
    summary = runner.run(again, old, quiet)
    assert summary["status"] == "finished" and summary["rounds"] == 4
    after = (old / "metrics.jsonl").read_text()
    assert after.startswith(before) and len(after.splitlines()) == 4
    assert checkpoint.rounds(old / "checkpoints")[-1] == 4


def test_it_goes_on_to_where_a_run_of_this_version_comes(old, tmp_path, quiet):
    again = opened.configuration(old)
    again.rounds = 3
    both = [tmp_path / "new", old]
    new, went_on = (runner.run(again, path, quiet)["rules"] for path in both)
    assert new.keys() == went_on.keys()
    for rule in new:
        pair = (run[rule]["pooled"]["final"] for run in (new, went_on))
        assert np.abs(np.subtract(*pair)) < 0.02


def test_its_state_is_read_and_its_records_are_compared(old):
    run = opened.load(old)
    assert run.round == 2 and sorted(run.state.clients[0].id.tolist()) == [0, 1, 2, 3]
    assert np.isfinite(np.asarray(run.state.server.protos.mean)).all()
    table = compare.table(compare.groups([compare.load(old)]))
    assert "ProtoNorm" in compare.render(table, "csv")


def test_a_saved_configuration_has_every_field_of_today(old):
    found = config.saved(json.loads((old / "config.json").read_text()))
    today = {**config.flat(config.default()), "method.name": "protonorm"}
    assert {*today} <= {*found} and found["method.reg"] == "l2_of_means"
