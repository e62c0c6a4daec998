"""Signs of broken runs: what is printed, stored and shown, and what is not."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import quick
from support.runs import run, small
from support.sweeping import console

from jaxproto import METHODS
from jaxproto.data.partition_stats import MajorityShare
from jaxproto.lab import compare
from jaxproto.lab.html import results
from jaxproto.lab.html.run_view import group_views
from jaxproto.lab.sweeps import SweepOptions, outputs, sweep
from jaxproto.nodes.flower import run_in_process
from jaxproto.round.participation import SAMPLERS, Participation
from jaxproto.round.uploads import Report
from jaxproto.storage import records
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary import sanity
from jaxproto.summary.sanity import TrainingSigns

quick_runs = quick.quick_runs
LONG = pytest.mark.long
HALF = {"head": {"pooled": 0.5}}


def report(steps=(2, 2), finite=(True, True), **changed):
    """Report of two clients; parts of their parameters changed, or not."""
    zeros, ones = np.zeros(2), np.ones(2, bool)
    changed = {part: np.array(flags) for part, flags in changed.items()}
    steps, finite = np.array(steps), np.array(finite)
    values = np.arange(2), zeros, steps, ones, finite, changed, zeros, zeros, zeros
    return Report(*values)


def said(*reports, evaluated=False, all_parts=True, rules=HALF):
    signs = TrainingSigns(evaluated, all_parts)
    for r, one in enumerate(reports, 1):
        signs.round(r, [one])
    return signs.evaluated({"round": len(reports), "rules": rules})[0]


def test_weights_that_training_never_changed_are_named():
    no, one, both = [False, False], [False, True], [True, True]
    (line,) = said(report(body=no, head=no))
    assert line.startswith("training has changed no weight of any client in round 1")
    (line,) = said(report(body=no, head=one), report(body=no, head=both))
    assert line.startswith("training has changed no weight of body until round 2")
    assert not said(report(body=no, head=one), all_parts=False)
    assert not said(report(body=one, head=no), report(body=no, head=one))
    assert not said(report(body=no, head=no), evaluated=True)
    # a client without a step keeps its weights
    (line,) = said(report(steps=(2, 0), body=one, head=both))
    assert "no weight of body" in line


def test_rounds_without_a_participant_and_rules_that_are_never_right_are_named():
    (line,) = said(report(steps=(0, 0), body=[False, False]))
    assert line.startswith("no client has trained in round 1")
    rules = {
        "head": {"pooled": 0.0},
        "global": {"pooled": 0.1},
        "own": {"pooled": None},
    }
    (line,) = said(report(body=[True, True]), rules=rules)
    assert line.startswith("rule 'head' is right on no test example after round 1")


def test_a_client_whose_weights_are_not_finite_is_named_once():
    signs = TrainingSigns(True, True)
    (line,) = signs.round(3, [report(finite=(True, False))])
    assert line == "round 3: weights are not finite, for the first time: clients 1"
    assert not signs.round(4, [report(finite=(True, False))])
    assert signs.round(5, [report(finite=(False, False))])[0].endswith("clients 0")
    new, every = signs.evaluated({"round": 5, "rules": HALF})
    assert not new and len(every) == 2  # the record has them, the terminal had them


def test_a_rule_far_below_the_reference_is_named_at_the_end_only():
    majority = MajorityShare(0.4, 0.4, 100)
    rules = {"head": {"pooled": 0.19}, "global": {"pooled": 0.21}}
    rows = [{"round": r, "rules": rules} for r in (1, 2, 3)]
    rows[0]["warnings"] = ["first"]
    first, low = sanity.run_warnings(rows, majority)
    assert first == "first"
    assert low.startswith("rule 'head' ends at 19.00%, below half of the reference 40")
    assert not said(report(body=[True, True]), rules=rules)
    assert sanity.run_warnings(rows[1:], majority) == []  # too few evaluations
    assert sanity.run_warnings(rows, None) == ["first"]  # nodes with their own data
    assert sanity.run_warnings([], majority) == []


def broken(spec):
    """A method whose body gets no gradient and whose scores are NaN."""
    local = METHODS["local"](spec)

    def loss(net, params, *rest):
        body = jax.lax.stop_gradient(params["net"]["body"])
        return local.loss(net, {"net": {**params["net"], "body": body}}, *rest)

    def predict(*args):
        return {rule: a * jnp.nan for rule, a in local.predict(*args).items()}

    return dataclasses.replace(local, loss=loss, predict=predict)


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


def nobody():
    """Returns a sampler that draws no client."""

    def sampler(key, num_clients, r):
        none = jnp.zeros(num_clients, bool)
        return Participation(none, none)

    return sampler


@pytest.mark.parametrize("at_once", (pytest.param("one", marks=LONG), "all"))
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


def test_a_round_without_participants_has_no_loss(tmp_path, monkeypatch):
    monkeypatch.setitem(SAMPLERS, "nobody", nobody)
    c = small(participation__law="nobody")
    summary, text = run(c, tmp_path / "run", width=200)
    (row,) = records.read(tmp_path / "run" / "metrics.jsonl")
    assert row["participants"] == 0 and row["loss"] is None
    assert "  loss -  " in text and "loss 0" not in text
    assert summary["warnings"][0].startswith("no client has trained in round 1")
