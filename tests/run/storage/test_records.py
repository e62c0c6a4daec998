"""Files of a run's numbers, and the summary made of them."""

import pytest

from jaxproto.storage import records as metrics


def record(r, pooled=0.5, client_mean=0.25):
    head = {"pooled": pooled, "client_mean": client_mean}
    return {"round": r, "rules": {"head": head}}


def test_the_newest_record_is_the_last_whole_one(tmp_path):
    file = tmp_path / "metrics.jsonl"
    assert metrics.read_last(file) is None
    first = '{"round": 1}\n'
    wanted = {"": None, "no record\n": None, first + '{"round": 2': {"round": 1}}
    wanted[first + '{"round": 2}\n'] = {"round": 2}
    for text, want in wanted.items():
        file.write_text(text)
        assert metrics.read_last(file) == want


def test_summary_of_a_rule_is_best_first_round_of_it_final_and_mean_of_the_last():
    pooled = [0.1, 0.9, 0.3, 0.9, *[0.5] * 8, 0.6]
    records = [record(2 * i, p, p / 2) for i, p in enumerate(pooled)]
    got = metrics.rule_summary(records)["head"]
    mean = pytest.approx((0.9 + 8 * 0.5 + 0.6) / 10)
    told = {"best": 0.9, "best_round": 2, "final": 0.6, "mean_last": mean, "last_n": 10}
    assert told.items() <= got["pooled"].items()
    assert got["client_mean"]["mean_last"] == pytest.approx(0.275)
    records = [record(1, 0.4), record(2, None), record(3, None)]  # not known
    known = {"best": 0.4, "best_round": 1, "mean_last": 0.4, "last_n": 1}
    got = metrics.rule_summary(records)["head"]["pooled"]
    assert got == {**known, "final": None}


def test_validation_accuracy_chooses_the_round_whose_test_accuracy_is_reported():
    rows = [record(1, 0.9, 0.1), record(2, 0.5, 0.3), record(3, 0.7, 0.2)]
    chosen_by = [(0.2, 0.4), (0.8, 0.5), (0.8, 0.6)]
    for row, (pooled, mean) in zip(rows, chosen_by, strict=True):
        row["validation"] = {"head": {"pooled": pooled, "client_mean": mean}}
    got = metrics.rule_summary(rows)["head"]
    chosen = {"best": 0.5, "best_round": 2, "best_validation": 0.8}
    assert chosen.items() <= got["pooled"].items()
    assert (got["client_mean"]["best"], got["client_mean"]["best_round"]) == (0.2, 3)
    rows[1]["validation"] = {}  # nobody who answered had an example
    assert metrics.rule_summary(rows)["head"]["pooled"]["best_round"] == 3


def test_records_cover_the_rounds_before_the_first_that_is_lost(tmp_path):
    for name, rounds, until, why in (
        ("gap", [2, 6], 3, "which lacks round 4"),
        ("twice", [2, 4, 4], 3, "which has round 4 in line 3, after round 4"),
        ("turned", [4, 2, 6], 1, "which has round 2 in line 2, after round 4"),
    ):
        for r in rounds:
            metrics.append(tmp_path / name, record(r))
        found = metrics.coverage(tmp_path / name, [2, 4, 6])
        assert found == (until, f"{name}, {why}")
