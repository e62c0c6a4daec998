"""The folder of a run as all that read it see it."""

import json

from support import reported
from support.refusal import refused

import jaxproto
from jaxproto.reporting import compare, html
from jaxproto.reporting.html.run_view import progress
from jaxproto.saved_runs import restore
from jaxproto.storage import run_folder
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status, status_of
from jaxproto.sweeps.plan import Cell, cell_status

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


def test_every_reader_says_how_a_run_of_four_rounds_has_ended_also_on_nodes(tmp_path):
    for status, words in ENDED.items():
        path = reported.run(tmp_path / status, status=str(status))
        for on_nodes in (False, True):
            if on_nodes:
                (path / run_folder.NODES).write_text("{}")
            run = RunFolder.read(path)
            assert run.status() is status and run.on_nodes == on_nodes
            assert said(path) == (status, status, words, status.ok)


def test_every_reader_says_that_a_run_has_not_ended_also_one_to_be_longer(tmp_path):
    path = reported.run(tmp_path / "run", status="")
    assert said(path) == (Status.RUNNING, "new", "not ended, round 3 of 4", False)
    path = reported.run(tmp_path / "longer", status="finished")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"rounds": 9}))
    assert said(path) == (Status.EXTENDED, "new", "not ended, round 4 of 9", False)
    assert RunFolder.read(path).status(rounds=4) is Status.FINISHED


def test_a_folder_without_a_run_is_new_and_an_unknown_status_no_end(tmp_path):
    assert RunFolder.at(tmp_path).status() is Status.NEW
    assert status_of({"status": "of another version", "rounds": 4}) is Status.RUNNING
    assert not run_folder.is_run(tmp_path)
    with refused("holds no config.json"):
        RunFolder.read(tmp_path)


def test_a_folder_of_runs_names_them_and_those_of_its_table(tmp_path):
    inside = reported.run(tmp_path / "sweeps/of/y")
    elsewhere = reported.run(tmp_path / "runs/x")
    folder = tmp_path / "sweeps/of"
    (folder / "sweep.csv").write_text(f"seed,workdir\r\n0,{inside}\r\n1,runs/x\r\n")
    assert run_folder.run_folders(folder) == [inside, elsewhere]
    assert run_folder.run_folders(inside) == [inside]
    (inside / "config.json").rename(inside / "moved.json")
    with refused("holds no config.json: give work directories"):
        jaxproto.load(inside)
    told = f"name one of the 2 runs in it: {inside}, {elsewhere}."
    with refused(f"holds no config.json: {told}"):
        jaxproto.load(folder)
