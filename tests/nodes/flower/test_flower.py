"""Server and clients of `nodes.flower`, with calls in the place of messages."""

import numpy as np
import pytest
from support.federated import Calls, Killed, both, metrics
from support.refusal import refused
from support.simulated import QUIET, small

import jaxproto
from jaxproto.nodes import flower
from jaxproto.nodes.flower.server_run import run_server

pytestmark = pytest.mark.long
STOPS_EARLY = {"early_stopping.patience": 1, "early_stopping.least": 0.5, "rounds": 5}


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fedavg", {}),
        ("refprotofl", {"data.validation_share": 0.2}),  # two exchanges
        ("protonorm", {"model.group": "cnn4", "rounds": 1}),
        ("fedproto", STOPS_EARLY),
    ],
)
def test_records_are_those_of_the_simulator_bit_for_bit(method, changes, tmp_path):
    simulated, served = both(small(method, **changes), tmp_path)
    status = "stopped early" if changes is STOPS_EARLY else "finished"
    assert simulated["status"] == served["status"] == status


def test_an_old_name_warns_and_works():
    with pytest.warns(DeprecationWarning, match="run_in_process"):
        assert flower.rehearse is flower.run_in_process


def test_a_server_that_begins_again_ends_as_one_that_never_stopped(tmp_path):
    c = small("tinyproto", 3, participation__dropout=0.5, wire__up="int8")

    def killing(stage, r, i, said):
        if (stage, r) == ("train", 3):
            raise Killed
        return said

    with pytest.raises(Killed):
        link = Calls(c, tmp_path / "nodes", happens=killing)
        run_server(c, tmp_path / "served", link, QUIET)
    assert len(metrics(tmp_path / "served")) == 2
    both(c, tmp_path)
    run = jaxproto.load(tmp_path / "served")
    assert run.round == 3 and run.status == "finished"
    assert np.isfinite(run.prototypes.mean).all()
    with refused("keep their networks on their nodes"):
        run.clients[0]
