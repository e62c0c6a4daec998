"""Differential privacy on nodes is that of the simulator, and counts its losses."""

import pytest
from support.federated import QUIET, Calls, faults, metrics, simulated, small

from jaxproto.flower.accept import REFUSED
from jaxproto.flower.server_run import run_server
from jaxproto.storage.run_folder import RunFolder

pytest.importorskip("dp_accounting", reason="extra `privacy`")
pytestmark = pytest.mark.long
LOT = {"participation.law": "uniform", "participation.fraction": 0.67}
LOST = {"participation.dropout": 0.5}


def private(method, unit, **changes):
    return small(method, privacy__unit=unit, privacy__noise=0.5, **changes)


@pytest.mark.parametrize(
    ("method", "unit", "law"),
    [("fedproto", "example", LOT), ("fedavg", "client", LOT | LOST)],
)
def test_records_and_epsilon_are_those_of_the_simulator(method, unit, law, tmp_path):
    c = private(method, unit, privacy__secret=False, **law)
    told = simulated(c, tmp_path / "simulated")
    said = run_server(c, tmp_path / "served", Calls(c, tmp_path / "nodes"), QUIET)
    served, alone = (metrics(tmp_path / name) for name in ("served", "simulated"))
    for own, other in zip(served, alone, strict=True):
        assert own["privacy"]["rehearsed"] is True  # its noise follows from the seed
        if unit == "example":  # a node keeps its loss
            assert own.pop("loss") is None and other.pop("loss") > 0
    assert served == alone != []
    kept = RunFolder.read(tmp_path / "served").summary
    assert said["privacy"] == kept["privacy"] == told["privacy"]
    assert said["privacy"]["unit"] == unit and said["privacy"]["epsilon"] > 0


def test_a_lost_upload_counts_as_lost_in_the_simulator(tmp_path):
    """Its noise is the server's then; epsilon is that of those who were drawn."""
    c = private("fedavg", "client")

    def lost(stage, r, i, said):
        return {REFUSED: "gone"} if (stage, i) == ("train", 1) else said

    whole = simulated(c, tmp_path / "simulated")
    link = Calls(c, tmp_path / "nodes", happens=lost)
    some = run_server(c, tmp_path / "some", link, QUIET)
    assert faults(tmp_path / "some") == [(1, 1, "train"), (2, 1, "train")]
    assert some["privacy"] == whole["privacy"] | {"rehearsed": False}
