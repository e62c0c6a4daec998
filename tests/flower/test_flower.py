"""Server and clients of `jaxproto.flower`, with calls in the place of messages."""

import numpy as np
import pytest
from rich.console import Console

import jaxproto
from jaxproto import config
from jaxproto.errors import UserError
from jaxproto.flower.folder import FAULTS, serve
from jaxproto.flower.node import Node
from jaxproto.flower.server import REFUSED
from jaxproto.storage import records

QUIET = Console(quiet=True)


def small(method="fedavg", **changes):
    c = config.experiment(method, "digits")
    c.rounds, c.data.clients, c.eval_every, c.model.group = 2, 3, 1, "mlp"
    c.model.feat_dim = 8
    c.update_from_flattened_dict(changes)
    return c


class Calls:
    """A link to nodes of the same process; what happens to a message can be said."""

    def __init__(self, c, path, there=None, happens=lambda stage, r, i, said: said):
        self.nodes = {i: Node(c, i, path / str(i)) for i in range(c.data.clients)}
        self.memory = {i: {} for i in self.nodes}
        self.there, self.happens, self.round = there, happens, 0

    def members(self):
        everyone = set(self.nodes)
        return everyone if self.there is None else everyone & self.there(self.round)

    def ask(self, stage, told):
        said = {}
        for i in reversed(told):  # answers come in any order
            self.round = told[i]["round"]
            try:
                answer = self.nodes[i].answer(stage, told[i], self.memory[i])
            except UserError as e:
                answer = {REFUSED: str(e)}
            said[i] = self.happens(stage, self.round + 1, i, answer)
        return said


def metrics(path):
    found = records.read(path / "metrics.jsonl")
    return [{k: v for k, v in r.items() if k != "seconds"} for r in found]


def faults(path):
    return [(f["round"], f["client"], f["stage"]) for f in records.read(path / FAULTS)]


CASES = {
    "fedavg": {},
    "refprotofl": {},  # two exchanges
    "protonorm": {"model.group": "cnn4", "rounds": 1},
    "tinyproto": {"participation.dropout": 0.5, "wire.up": "int8"},
}


@pytest.mark.long
@pytest.mark.parametrize("method", CASES)
def test_records_are_those_of_the_simulator_bit_for_bit(method, tmp_path):
    c = small(method, **CASES[method])
    jaxproto.run(c, tmp_path / "simulated", QUIET)
    serve(c, tmp_path / "served", Calls(c, tmp_path / "nodes"), QUIET)
    assert metrics(tmp_path / "served") == metrics(tmp_path / "simulated")
    assert not faults(tmp_path / "served")


def damaged(stage, r, i, said):
    if (stage, r, i) != ("train", 1, 1):
        return said
    return said | {"up": said["up"][:20] + b"\xff" + said["up"][21:]}


@pytest.mark.long
def test_a_damaged_upload_is_refused_and_the_round_goes_on(tmp_path):
    c = small()
    serve(c, tmp_path / "run", Calls(c, tmp_path / "n", happens=damaged), QUIET)
    first, second = metrics(tmp_path / "run")
    assert faults(tmp_path / "run") == [(1, 1, "train")]
    why = records.read(tmp_path / "run" / FAULTS)[0]["why"]
    assert "refused" in why
    assert first["bytes_by_client"]["up"][1] == 0
    assert all(second["bytes_by_client"]["up"])


@pytest.mark.long
def test_who_is_not_there_is_named_and_can_come_later(tmp_path):
    c = small()
    there = [{0, 1}, {0, 1, 2}]
    link = Calls(c, tmp_path / "n", there=lambda r: there[link.late])
    link.late = 0

    def arrives(stage, r, i, said):
        link.late = 1 if stage == "evaluate" else link.late
        return said

    link.happens = arrives
    serve(c, tmp_path / "run", link, QUIET)
    first, second = metrics(tmp_path / "run")
    assert faults(tmp_path / "run") == [(1, 2, "train")]
    assert first["evaluated_clients"] == 2
    assert (first["participants"], second["participants"]) == (2, 3)


class Killed(BaseException):
    """The server goes, whatever it was doing."""


@pytest.mark.long
def test_a_server_that_begins_again_ends_as_one_that_never_stopped(tmp_path):
    c = small("tinyproto", rounds=3)

    def killing(stage, r, i, said):
        if (stage, r) == ("train", 3):
            raise Killed
        return said

    serve(c, tmp_path / "whole", Calls(c, tmp_path / "a"), QUIET)
    with pytest.raises(Killed):
        serve(c, tmp_path / "run", Calls(c, tmp_path / "b", happens=killing), QUIET)
    serve(c, tmp_path / "run", Calls(c, tmp_path / "b"), QUIET)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    run = jaxproto.load(tmp_path / "run")
    assert run.round == 3 and run.status == "finished"
    assert np.isfinite(run.prototypes.mean).all()
    with pytest.raises(UserError, match="keep their networks on their nodes"):
        run.clients[0]
