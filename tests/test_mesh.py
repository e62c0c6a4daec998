"""Clients over several devices: the numbers of one, and nothing said in training."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxproto import mesh
from jaxproto.errors import UserError

ROOT = Path(__file__).parent.parent
PART = {"participation.law": "uniform", "participation.fraction": 0.4}
MIXED = {
    "model.group": "mlp,cnn4_d",
    "optimizer.momentum": 0.5,
    "local.optimizer_state": "keep",
    "participation.law": "uniform",
    "participation.fraction": 0.45,
    "participation.dropout": 0.25,
}
CASES = {
    "seven": {
        "method": "fedproto",
        "fields": {"data.clients": 7, "rounds": 2, "data.validation_share": 0.2},
        "devices": ["1", "3"],
    },
    "said": {
        "ask": "collectives",
        "method": "fedproto",
        "fields": PART,
        "devices": "4",
    },
}
LONG_CASES = {
    "eleven": {
        "method": "fedproto",
        "fields": {"data.clients": 11},
        "devices": ["1", "8", [[2, "8"], [4, "3"]]],
    },
    "part": {"method": "protonorm", "fields": MIXED, "devices": ["1", "3"]},
    "said": {
        "ask": "collectives",
        "method": "refprotofl",
        "fields": PART,
        "devices": "4",
    },
    "sums": {"method": "fedavg", "fields": PART, "devices": ["1", "8"]},
    "sample": {
        "method": "tinyproto",
        "fields": PART | {"eval.clients": "3", "clients.store": "device"},
        "devices": ["1", "3"],
    },
    "disk": {
        "method": "fedproto",
        "fields": PART | {"clients.store": "disk", "data.validation_share": 0.2},
        "devices": ["1", "3", [[2, "2"], [4, "1"]]],
    },
    "twice": {"method": "refprotofl", "devices": ["1", "0,2,5"]},
    "sweep": {
        "ask": "sweep",
        "method": "fedproto",
        "fields": {"rounds": 2, "data.validation_share": 0.2},
        "axes": {"seed": [0, 1, 2], "method.lam": [1.0, 5.0]},
        "devices": "4",
    },
}


def asked(cases, folder):
    """What `support/on_devices.py` finds out in a process of its own."""
    command = [sys.executable, "-m", "tests.support.on_devices", str(folder)]
    done = subprocess.run(
        [*command, json.dumps(cases)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return asked(CASES, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def found_long(tmp_path_factory):
    return asked(LONG_CASES, tmp_path_factory.mktemp("many"))


def exact(results):
    return all(r == {"same_records": True, "state": 0.0, "rules": 0.0} for r in results)


def test_a_run_has_the_bits_of_one_device(found):
    assert len(found["seven"]) == 1
    assert exact(found["seven"])


@pytest.mark.long
def test_a_run_goes_on_with_another_number_of_devices(found_long):
    assert len(found_long["eleven"]) == 2
    assert exact(found_long["eleven"])


def silent(said):
    """Training, evaluation and the first exchange of devices, by their programs."""
    for program in ("train", "evaluate", "pre_upload", "start_clients", "broadcast"):
        assert said[program] == [], program
    assert "all-gather" in said["update"]  # the test knows the words
    assert "reduce-scatter" in said["gather"]
    return True


def test_nothing_is_said_between_devices_in_training(found):
    assert silent(found["said"])


@pytest.mark.long
def test_nothing_is_said_between_devices_before_training(found_long):
    assert silent(found_long["said"])


@pytest.mark.long
@pytest.mark.parametrize("case", ["sample", "disk", "twice", "part"])
def test_more_runs_have_the_bits_of_one_device(found_long, case):
    assert found_long[case]
    assert exact(found_long[case])


@pytest.mark.long
def test_sums_over_clients_differ_by_rounding(found_long):
    (result,) = found_long["sums"]
    assert result["state"] < 1e-6
    assert result["rules"] < 0.01


@pytest.mark.long
def test_a_sweep_is_shared_by_devices(found_long):
    assert found_long["sweep"]["cells"] == 6
    assert found_long["sweep"]["rules"] < 0.02  # another form of execution


@pytest.mark.parametrize("count", [1, 3, 8, 11])
@pytest.mark.parametrize("number", [1, 2, 8])
def test_rows_are_dealt_one_by_one(count, number):
    rows = np.arange(count)
    dealt = mesh.interleave(rows, number)
    each = dealt.reshape(number, -1)
    assert len(dealt) == mesh.rows_per_device(count, number) * number
    for i, own in enumerate(each):
        assert [r for r in own if r != count - 1] == [
            r for r in range(i, count, number) if r != count - 1
        ]
    assert mesh.deinterleave(dealt, count, number).tolist() == rows.tolist()


@pytest.mark.parametrize("which", ["0", "two", "1,", "-1", "0,0", "99", "0,99"])
def test_devices_that_are_not_there_are_refused(which):
    with pytest.raises(UserError, match=f"--devices={which}"):
        mesh.parse_devices(which)


@pytest.mark.parametrize("which", ["", "1", "all"])
def test_one_device_needs_no_layout(which):
    assert mesh.parse_devices(which) is mesh.ONE
