"""Signs of broken runs: what is printed, stored and shown, and what is not."""

import numpy as np
from support import quick
from support.broken import nobody
from support.runs import run, small

from jaxproto.data.partition_stats import MajorityShare
from jaxproto.round.participation import SAMPLERS
from jaxproto.round.uploads import Report
from jaxproto.storage import records
from jaxproto.summary import sanity
from jaxproto.summary.sanity import TrainingSigns

quick_runs = quick.quick_runs
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


def test_a_round_without_participants_has_no_loss(tmp_path, monkeypatch):
    monkeypatch.setitem(SAMPLERS, "nobody", nobody)
    c = small(participation__law="nobody")
    summary, text = run(c, tmp_path / "run", width=200)
    (row,) = records.read(tmp_path / "run" / "metrics.jsonl")
    assert row["participants"] == 0 and row["loss"] is None
    assert "  loss -  " in text and "loss 0" not in text
    assert summary["warnings"][0].startswith("no client has trained in round 1")
