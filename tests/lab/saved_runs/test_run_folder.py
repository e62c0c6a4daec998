"""The folder of a run as all that read it see it."""

import json

from support import reported
from support.refusal import refused

import jaxproto
from jaxproto.lab import compare, html
from jaxproto.lab.html.run_view import progress
from jaxproto.lab.saved_runs import restore
from jaxproto.lab.sweeps.plan import Cell, cell_status
from jaxproto.storage import run_folder
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status, status_of

ENDED = {  # status -> what the page says
    Status.FINISHED: "finished, 4 rounds",
    Status.STOPPED_EARLY: "stopped early, 3 rounds",
    Status.DIVERGED: "diverged, last evaluation after round 3 of 4",
}


def said(path):
    """Returns a run's status by load, sweep and page, and its count in a comparison."""
    run = RunFolder.read(path)
    cell = Cell({}, restore.configuration(run), path)
    (group,) = compare.group_by_seed([run])
    told = progress(run).partition(" (")[0]
    assert told in html.render_page([path], "now").html
    return jaxproto.load(path).status, cell_status(cell), told, len(group.finished)


def test_every_reader_says_whether_and_how_a_run_of_four_rounds_has_ended(tmp_path):
    for status, words in ENDED.items():
        path = reported.run(tmp_path / status, status=str(status))
        assert said(path) == (status, status, words, status.ok)
    path = reported.run(tmp_path / "run", status="")
    assert said(path) == (Status.RUNNING, "new", "not ended, round 3 of 4", False)
    path = reported.run(tmp_path / "longer", status="finished")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"rounds": 9}))
    assert said(path) == (Status.EXTENDED, "new", "not ended, round 4 of 9", False)
    assert status_of({"status": "of another version", "rounds": 4}) is Status.RUNNING


def test_a_folder_of_runs_names_them_and_those_of_its_table(tmp_path):
    inside = reported.run(tmp_path / "sweeps/of/y")
    elsewhere = reported.run(tmp_path / "runs/x")
    folder = tmp_path / "sweeps/of"
    (folder / "sweep.csv").write_text(f"seed,workdir\r\n0,{inside}\r\n1,runs/x\r\n")
    assert run_folder.run_folders(folder) == [inside, elsewhere]
    assert run_folder.run_folders(inside) == [inside]
    told = f"name one of the 2 runs in it: {inside}, {elsewhere}."
    with refused(f"holds no config.json: {told}"):
        jaxproto.load(folder)
