"""Differential privacy on nodes is that of the simulator, and counts its losses."""

import importlib.util

import pytest
from rich.console import Console

import jaxproto
from jaxproto.flower.folder import serve
from jaxproto.flower.server import REFUSED
from jaxproto.storage import jsonfile
from tests.flower.test_flower import Calls, faults, metrics, small

QUIET = Console(quiet=True)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("dp_accounting") is None, reason="extra `privacy`"
    ),
]


def private(method, unit, **changes):
    fields = {"privacy.unit": unit, "privacy.noise": 0.5, **changes}
    return small(method, **fields)


SOME = {"participation.law": "uniform", "participation.fraction": 0.67}
LOST = {"participation.dropout": 0.5}


@pytest.mark.parametrize(
    ("method", "unit", "law"),
    [
        ("fedproto", "client", SOME),
        ("fedproto", "client", LOST),
        ("fedproto", "example", SOME),
        ("fedavg", "client", LOST),
        ("fedavg", "client", SOME),
        ("fedavg", "example", SOME),
    ],
)
def test_records_and_epsilon_are_those_of_the_simulator(method, unit, law, tmp_path):
    c = private(method, unit, **law)
    told = jaxproto.run(c, tmp_path / "simulated", QUIET)
    said = serve(c, tmp_path / "served", Calls(c, tmp_path / "nodes"), QUIET)
    assert metrics(tmp_path / "served") == metrics(tmp_path / "simulated")
    assert not faults(tmp_path / "served")
    assert said["privacy"] == told["privacy"]
    kept = jsonfile.read_summary(tmp_path / "served" / "summary.json")
    assert kept["privacy"] == told["privacy"]
    assert said["privacy"]["unit"] == unit and said["privacy"]["epsilon"] > 0


def test_a_lost_upload_counts_as_lost_in_the_simulator(tmp_path):
    """Its noise is the server's then; epsilon is that of those who were drawn."""
    c = private("fedavg", "client")

    def lost(stage, r, i, said):
        return {REFUSED: "gone"} if (stage, i) == ("train", 1) else said

    whole = serve(c, tmp_path / "whole", Calls(c, tmp_path / "a"), QUIET)
    link = Calls(c, tmp_path / "b", happens=lost)
    some = serve(c, tmp_path / "some", link, QUIET)
    assert faults(tmp_path / "some") == [(1, 1, "train"), (2, 1, "train")]
    assert some["privacy"] == whole["privacy"]
