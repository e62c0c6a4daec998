"""Files of a run's numbers: whole or torn, and the summary made of them."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from support.every import check_every

from jaxproto.errors import UserError
from jaxproto.storage import records as metrics


def record(r, pooled=0.5, client_mean=0.25):
    head = {"pooled": pooled, "client_mean": client_mean}
    return {"round": r, "rules": {"head": head}}


@pytest.fixture
def path(tmp_path):
    for r in range(1, 5):
        metrics.append(tmp_path / "m.jsonl", record(r))
    return tmp_path / "m.jsonl"


def test_scalars_arrays_and_paths_become_json_and_what_is_not_finite_null(tmp_path):
    pairs = {
        "float": (np.float32(0.5), 0.5),
        "half": (jnp.bfloat16(1.5), 1.5),
        "bool": (np.bool_(True), True),
        "array": (jnp.arange(3), [0, 1, 2]),
        "tuple": ((1, np.uint8(2)), [1, 2]),
        "path": (tmp_path, str(tmp_path)),
        "nan": ([np.nan, 1.0], [None, 1.0]),
        "infinite": (float("inf"), None),
    }
    given, want = ({k: pair[i] for k, pair in pairs.items()} for i in (0, 1))
    metrics.append(tmp_path / "m.jsonl", {"round": 1, 7: None, **given})
    assert metrics.read(tmp_path / "m.jsonl") == [{"round": 1, "7": None, **want}]


def test_a_torn_last_line_is_ignored_and_a_broken_one_before_it_named(path):
    whole = path.read_bytes()
    for cut, last in ((1, 4), (2, 3), (20, 3)):  # a newline alone loses nothing
        path.write_bytes(whole[:-cut])
        assert [r["round"] for r in metrics.read(path)] == [*range(1, last + 1)]
    lines = whole.decode().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-3], *lines[2:]]) + "\n")
    with pytest.raises(UserError, match=r"line 2 of .*m\.jsonl"):
        metrics.read(path)
    for line in ("3", "[]", '"a"', "{}", '{"round": "1"}', "null"):
        path.write_text(f"{line}\n")
        with pytest.raises(UserError, match=r"line 1 of .*m\.jsonl is no record of a"):
            metrics.read(path)


def test_the_newest_record_is_the_last_whole_one(tmp_path):
    file, long = tmp_path / "metrics.jsonl", {"round": 2, "angles": [0.5] * 50_000}
    assert metrics.read_last(file) is None
    first = '{"round": 1}\n'
    wanted = {"": None, "no record\n": None, first + '{"round": 2': {"round": 1}}
    wanted[first + json.dumps(long) + "\n"] = long
    for text, want in wanted.items():
        file.write_text(text)
        assert metrics.read_last(file) == want


def test_keep_until_drops_later_rounds_and_keeps_the_others_byte_for_byte(path):
    metrics.truncate_after(path.with_name("none.jsonl"), 3)
    assert metrics.read(path.with_name("none.jsonl")) == []
    assert list(path.parent.iterdir()) == [path]
    odd = '{"round":  2, "x": 1.0e-1}\n'  # not as we would write it
    first = path.read_text().splitlines(keepends=True)[0]
    path.write_text(first + odd + path.read_text() + '{"round": 5, "lo')
    metrics.truncate_after(path, 2)
    again = [json.dumps(record(r)) + "\n" for r in (1, 2)]
    assert path.read_text() == first + odd + "".join(again)
    path.write_bytes(path.read_bytes()[:-1])  # without its last newline
    metrics.truncate_after(path, 2)
    metrics.append(path, record(3))
    assert [r["round"] for r in metrics.read(path)] == [1, 2, 1, 2, 3]


def test_summary_of_a_rule_is_best_first_round_of_it_final_and_mean_of_the_last():
    pooled = [0.1, 0.9, 0.3, 0.9, *[0.5] * 8, 0.6]
    records = [record(2 * i, p, p / 2) for i, p in enumerate(pooled)]
    got = metrics.rule_summary(records)["head"]
    mean = pytest.approx((0.9 + 8 * 0.5 + 0.6) / 10)
    told = {"best": 0.9, "best_round": 2, "final": 0.6, "mean_last": mean, "last_n": 10}
    assert told.items() <= got["pooled"].items()
    assert metrics.mean_last(got["pooled"]) == (mean, 10)
    assert metrics.mean_last({"mean_last_10": 0.5}) == (0.5, None)  # an older summary
    assert got["client_mean"]["mean_last"] == pytest.approx(0.275)


def test_validation_accuracy_chooses_the_round_whose_test_accuracy_is_reported():
    rows = [record(1, 0.9, 0.1), record(2, 0.5, 0.3), record(3, 0.7, 0.2)]
    assert metrics.chosen_on([metrics.rule_summary(rows)["head"]["pooled"]]) == "test"
    chosen_by = [(0.2, 0.4), (0.8, 0.5), (0.8, 0.6)]
    for row, (pooled, mean) in zip(rows, chosen_by, strict=True):
        row["validation"] = {"head": {"pooled": pooled, "client_mean": mean}}
    got = metrics.rule_summary(rows)["head"]
    chosen = {"best": 0.5, "best_round": 2, "best_validation": 0.8}
    assert chosen.items() <= got["pooled"].items()
    assert (got["client_mean"]["best"], got["client_mean"]["best_round"]) == (0.2, 3)
    assert got["pooled"]["final"] == 0.7
    assert metrics.chosen_on([got["pooled"]]) == "validation"
    rows[1]["validation"] = {}  # nobody who answered had an example
    assert metrics.rule_summary(rows)["head"]["pooled"]["best_round"] == 3


def test_summary_passes_over_accuracies_that_are_not_known():
    records = [record(1, 0.4), record(2, None), record(3, None)]
    got = metrics.rule_summary(records)["head"]["pooled"]
    known = {"best": 0.4, "best_round": 1, "mean_last": 0.4, "last_n": 1}
    assert got == {**known, "final": None}
    nothing = metrics.rule_summary([record(1, None)])["head"]["pooled"]
    assert nothing.pop("last_n") == 0 and set(nothing.values()) == {None}
    assert metrics.rule_summary([]) == {}
    whole = metrics.rule_summary(records)
    assert json.loads(json.dumps(metrics.to_json_values(whole))) == whole


COVERED = [  # rounds with a record, rounds due, the first that is lost, why
    ([2, 4, 5, 6], [2, 4, 6], float("inf"), ""),  # 5: where it first ended
    ([], [2, 4], 1, "m.jsonl, which lacks round 2"),
    ([2], [2, 4, 6], 3, "m.jsonl, which lacks round 4"),
    ([2, 6], [2, 4, 6], 3, "m.jsonl, which lacks round 4"),
    ([2, 4, 4], [2, 4], 3, "m.jsonl, which has round 4 in line 3, after round 4"),
    ([4, 2], [2, 4], 1, "m.jsonl, which has round 2 in line 2, after round 4"),
]


def test_records_cover_the_rounds_before_the_first_that_is_lost(tmp_path):
    def check(rounds, due, until, why):
        (tmp_path / "m.jsonl").unlink(missing_ok=True)
        for r in rounds:
            metrics.append(tmp_path / "m.jsonl", record(r))
        assert metrics.coverage(tmp_path / "m.jsonl", due) == (until, why)

    check_every(COVERED, check)
