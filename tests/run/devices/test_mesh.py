"""Clients over several devices: the numbers of one, and nothing said in training."""

import pytest
from support.device_runs import case, results
from support.every import check_every
from support.refusal import refused

from jaxproto.devices import mesh

PART = {"participation.law": "uniform", "participation.fraction": 0.4}
HELD = {"data.validation_share": 0.2}
MIXED = {"model.group": "mlp,cnn4_d", "optimizer.momentum": 0.5}
MIXED |= {"local.optimizer_state": "keep", "participation.law": "uniform"}
MIXED |= {"participation.fraction": 0.45, "participation.dropout": 0.25}
FEW = {"data.clients": 7, "rounds": 2}


CASES = {"few": case("fedproto", PART | FEW, "1", "3")}
DISK = PART | HELD | {"clients.store": "disk"}
SAMPLE = PART | {"eval.clients": "3", "clients.store": "device"}
ONE, OTHER = [[2, "8"], [4, "3"]], [[2, "2"], [4, "1"]]  # two parts of a run
LONG_CASES = {
    "eleven": case("fedproto", {"data.clients": 11}, "1", "8", ONE),
    "part": case("protonorm", MIXED, "1", "3"),
    "sums": case("fedavg", PART, "1", "8"),
    "sample": case("tinyproto", SAMPLE, "1", "3"),
    "disk": case("fedproto", DISK, "1", "3", OTHER),
    "twice": case("refprotofl", PART, "1", "0,2,5"),
}


def check_bits(found):
    assert found["differ"]
    for other in found["differ"]:
        assert other == {"same_records": True, "state": 0.0}


def check_silent(found):
    """Training, evaluation and the first exchange of devices, by their programs."""
    said = found["collectives"]
    for program in ("train", "evaluate", "pre_upload", "start_clients", "broadcast"):
        assert said[program] == [], program
    assert "all-gather" in said["update"]  # the test knows the words
    assert "reduce-scatter" in said["gather"]


@pytest.mark.long
@pytest.mark.landing
def test_a_run_has_the_bits_of_one_device_and_nothing_is_said_in_training(tmp_path):
    found = results(CASES, tmp_path)["few"]
    check_bits(found)
    check_silent(found)


@pytest.mark.long
def test_more_runs_have_the_bits_of_one_device_and_sums_differ_by_rounding(tmp_path):
    """A run also goes on with another number of devices."""
    found = results(LONG_CASES, tmp_path)
    sums = found.pop("sums")["differ"][0]
    check_every(found, lambda name: check_bits(found[name]))
    check_silent(found["twice"])
    assert sums["state"] < 1e-6


def test_devices_that_are_not_there_are_refused_and_one_needs_no_layout():
    for which in ("0", "two", "0,0", "0,99"):
        with refused(f"--devices={which}"):
            mesh.parse_devices(which)
    assert all(mesh.parse_devices(which) is mesh.ONE for which in ("", "1", 1, "all"))
