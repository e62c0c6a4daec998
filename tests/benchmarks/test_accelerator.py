"""The benchmark of an accelerator: stages, limits, and the forms it chooses."""

import json

import pytest

from benchmarks import accelerator
from jaxproto.errors import UserError
from jaxproto.models.ops import conv, forms, ops

LINES = [
    {"stage": "products", "precision": "tf32", "flops_per_second": 100.0},
    {"stage": "operations", "kind": "conv", "form": "lax", "ms": 3.0},
    {"stage": "operations", "kind": "conv", "form": "gemm", "ms": 2.0},
    {"stage": "operations", "kind": "conv", "form": "lax", "ms": 0.5},
    {"stage": "operations", "kind": "conv", "form": "gemm", "ms": 2.0},
    {"stage": "operations", "kind": "sums", "form": "short", "ms": 1.0},
    {"stage": "networks", "precision": "tf32", "flops_per_second": 25.0},
]


def test_the_fastest_form_over_all_cases_is_chosen_and_read_back(tmp_path):
    file = tmp_path / "forms.json"
    file.write_text("{}")
    chosen = accelerator.fastest_forms(LINES)
    assert chosen == {"conv": "lax", "sums": "short"}
    accelerator.write_forms("gpu", chosen, "a test", file)
    accelerator.write_forms("tpu", {"conv": "gemm"}, "a test", file)
    assert forms.chosen("gpu", file) == {"conv": conv.conv_lax}
    assert forms.chosen("tpu", file) == {"conv": conv.conv_gemm}
    assert forms.chosen("cpu", file) == {}
    assert {*forms.FORMS} <= {*ops.Ops._fields}


def test_a_training_speed_is_compared_with_the_product_of_its_precision():
    assert [line.get("roofline") for line in accelerator.with_roofline(LINES)] == [
        *[None] * 6,
        0.25,
    ]


def test_every_line_is_written_when_it_is_measured(tmp_path, monkeypatch):
    def measured(size):
        yield {"first": size["rounds"]}
        raise UserError("stopped in the middle")

    monkeypatch.setitem(accelerator.STAGES, "products", (measured, 0.1))
    file = tmp_path / "lines.jsonl"
    with pytest.raises(UserError):
        accelerator.run_stage("products", accelerator.DRY, file)
    assert json.loads(file.read_text()) == {"stage": "products", "first": 1}


@pytest.mark.long
def test_a_stage_beyond_its_limit_is_cut_off_and_the_next_one_runs(
    tmp_path, monkeypatch
):
    shares = {"products": 1.0, "averaging": 1e-9}
    stages = {k: (accelerator.STAGES[k][0], share) for k, share in shares.items()}
    monkeypatch.setattr(accelerator, "STAGES", {k: stages[k] for k in reversed(shares)})
    file = tmp_path / "lines.jsonl"
    accelerator.run_all({"seconds": 60.0, "dry": True}, file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    status = {line["stage"]: line["status"] for line in lines if "status" in line}
    assert status == {"averaging": "cut off by the time limit", "products": "complete"}
    assert sum("flops_per_second" in line for line in lines) == 3
