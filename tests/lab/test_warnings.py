"""A run that trains nothing says so wherever one looks."""

import json

import pytest
from support import quick
from support.broken import broken, nobody
from support.runs import run, small
from support.sweeping import console

from jaxproto import METHODS
from jaxproto.lab import compare
from jaxproto.lab.html import results
from jaxproto.lab.html.run_view import group_views
from jaxproto.lab.sweeps import SweepOptions, outputs, sweep
from jaxproto.nodes.flower import run_in_process
from jaxproto.round.participation import SAMPLERS
from jaxproto.storage import records
from jaxproto.storage.run_folder import RunFolder

quick_runs = quick.quick_runs


def test_a_broken_run_says_so_in_terminal_summary_record_page_and_comparison(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(METHODS, "mine", broken)
    summary, text = run(
        small("mine", rounds=3, eval_every=1), tmp_path / "run", width=200
    )
    body = "training has changed no weight of net.body in round 1"
    head = "rule 'head' is right on no test example after round 1"
    low = "rule 'head' ends at 0.00%, below half of the reference"
    for line, found in zip((body, head, low), summary["warnings"], strict=True):
        assert found.startswith(line) and f"warning: {found}\n" in text
    assert text.count(f"warning: {body}") == 2  # when it is found, and at the end
    saved = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert saved["warnings"] == summary["warnings"]
    first, *later = records.read(tmp_path / "run" / "metrics.jsonl")
    assert first["warnings"] == summary["warnings"][:2]
    assert not any("warnings" in row for row in later)
    views = group_views([RunFolder.at(tmp_path / "run")])
    alerts = [*results.alerts(views, [])]
    assert any(f": {summary['warnings'][0]}." in alert for alert in alerts)
    notes = compare.table([view.group for view in views]).notes
    assert sum(body in note for note in notes) == 1


@pytest.mark.long
@pytest.mark.parametrize("at_once", ("one", "all"))
def test_cells_of_a_sweep_warn_each(tmp_path, monkeypatch, at_once):
    monkeypatch.setitem(METHODS, "mine", broken)
    monkeypatch.setitem(SAMPLERS, "nobody", nobody)
    monkeypatch.setattr(outputs, "pictures", lambda *_: [])
    head = "rule 'head' is right on no test example after round 1"
    body = "training has changed no weight of net.body in round 1"
    none = "no client has trained in round 1"
    axes, how = {"participation.law": ["all", "nobody"]}, SweepOptions(at_once)
    done = sweep(small("mine"), axes, tmp_path, console(), how)
    found = [summary["warnings"] for summary in done.summaries.values()]
    for lines, starts in zip(found, ((body, head), (none, head)), strict=True):
        assert all(map(str.startswith, lines, starts)) and len(lines) == 2
    for cell, lines in zip(done.plan.cells, found, strict=True):
        (record,) = records.read(cell.path / "metrics.jsonl")
        assert record["warnings"] == lines


def test_the_summary_of_a_federation_on_nodes_warns(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", broken)
    summary = run_in_process(small("mine"), tmp_path, console=console())
    (head,) = summary["warnings"]  # a node sends no report of its weights
    assert head.startswith("rule 'head' is right on no test example after round 1")
