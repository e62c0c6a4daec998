"""The benchmark of an accelerator: stages, limits, and the forms it chooses."""

import json

import pytest

from benchmarks import accelerator
from jaxproto.models.ops import conv, ops

LINES = [
    {"stage": "products", "precision": "tf32", "flops_per_second": 100.0},
    {"stage": "operations", "kind": "conv", "form": "lax", "ms": 3.0},
    {"stage": "operations", "kind": "conv", "form": "taps", "ms": 2.0},
    {"stage": "operations", "kind": "conv", "form": "lax", "ms": 0.5},
    {"stage": "operations", "kind": "conv", "form": "taps", "ms": 2.0},
    {"stage": "operations", "kind": "sums", "form": "short", "ms": 1.0},
    {"stage": "networks", "precision": "tf32", "flops_per_second": 25.0},
]


def test_the_fastest_form_over_all_cases_is_chosen_and_read_back(tmp_path):
    file = tmp_path / "forms.json"
    file.write_text("{}")
    chosen = accelerator.fastest_forms(LINES)
    assert chosen == {"conv": "lax", "sums": "short"}
    accelerator.write_forms("gpu", chosen, "a test", file)
    accelerator.write_forms("tpu", {"conv": "taps"}, "a test", file)
    assert ops.chosen("gpu", file) == {"conv": conv.conv_lax}
    assert ops.chosen("tpu", file) == {"conv": conv.conv_by_tap}
    assert ops.chosen("cpu", file) == {}
    assert accelerator.with_roofline(LINES)[-1]["roofline"] == 0.25


@pytest.mark.long
def test_a_stage_beyond_its_limit_is_cut_off_and_the_next_one_runs(
    tmp_path, monkeypatch
):
    shares = {"averaging": 1e-9, "products": 1.0}
    stages = {k: (accelerator.STAGES[k][0], share) for k, share in shares.items()}
    monkeypatch.setattr(accelerator, "STAGES", stages)
    file = tmp_path / "lines.jsonl"
    accelerator.run_all({"seconds": 60.0, "dry": True}, file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    status = {line["stage"]: line["status"] for line in lines if "status" in line}
    assert status == {"averaging": "cut off by the time limit", "products": "complete"}
    assert sum("flops_per_second" in line for line in lines) == 3
