"""Runs, configurations and checkpoints of earlier versions load and go on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import jaxproto
from jaxproto import config
from jaxproto.reporting import compare
from jaxproto.reporting import html as page
from jaxproto.saved_runs import restore
from jaxproto.storage import checkpoint
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.training import runner

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

# configs/protonorm.py:spiral, 4 clients, 2 rounds with eval_every=1, as these commits
# wrote it
COMMITS = ("03d3868", "cbdea53")
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(params=COMMITS)
def old(request, tmp_path):
    there = FIXTURES / f"run_of_{request.param}"
    return Path(shutil.copytree(there, tmp_path / "run"))


def test_a_run_of_an_earlier_version_goes_on_to_where_one_of_this_comes(old, tmp_path):
    before = (old / "metrics.jsonl").read_text()
    again = restore.configuration(RunFolder.read(old))
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


def test_every_reader_opens_it(old):
    state = restore.load(old).state
    assert sorted(state.clients[0].id.tolist()) == [0, 1, 2, 3]
    assert np.isfinite(np.asarray(state.server.protos.mean)).all()
    run = jaxproto.load(old)
    assert run.status is Status.FINISHED and run.rounds == run.round == 2
    told = json.loads((old / "metrics.jsonl").read_text().splitlines()[-1])["rules"]
    for rule, found in run.evaluate().items():
        assert found["pooled"] == pytest.approx(told[rule]["pooled"], abs=0.002)
    table = compare.table(compare.group_by_seed([compare.load(old)]))
    assert "ProtoNorm" in compare.render(table, "csv")
    html = page.render_page([old], "2030-01-02 03:04 UTC").html
    assert "finished, 2 rounds" in html and "No checkpoint" not in html


def test_a_saved_configuration_has_every_field_of_today(old):
    written = json.loads((old / "config.json").read_text())
    found = config.upgrade_saved(written)
    today = {**config.flatten(config.default()), "method.name": "protonorm"}
    assert {*today} <= {*found} and found["method.reg"] == written["method"]["reg"]
