"""Small federations on nodes of this process, and the records in their folders."""

import json

from jaxproto.nodes.flower import in_process
from jaxproto.nodes.flower.server_run import FAULTS, run_server
from jaxproto.storage import records
from support.runs import records as metrics
from support.simulated import QUIET, simulated


class Killed(BaseException):
    """Stands for the death of the server process."""


class Calls(in_process.InProcessLink):
    """Nodes that answer in reverse order.

    `happens`: stage, round (from 1), client, answer -> answer that the server receives.
    """

    def __init__(self, c, path, data=(), happens=lambda stage, r, i, said: said):
        super().__init__(c, path, data)
        self.there, self.happens = set(self.nodes), happens

    def members(self):
        return set(self.there)

    def ask(self, stage, told):
        said = {}
        for i in reversed(told):
            answers = super().ask(stage, {i: told[i]})
            said[i] = self.happens(stage, told[i].get("round", -1) + 1, i, answers[i])
        return said


def rounds(path):
    return [r["round"] for r in metrics(path)]


def why(path, stage):
    return [f["why"] for f in records.read(path / FAULTS) if f["stage"] == stage]


def assert_the_same(path, other):
    """Asserts that a federation had no faults and has the records of another run."""
    assert metrics(path) == metrics(other) != []
    assert not (path / FAULTS).exists()


def both(c, path):
    """Runs simulator and server, asserts equal records, and returns both summaries."""
    by_simulator = simulated(c, path / "simulated")
    by_server = run_server(c, path / "served", Calls(c, path / "nodes"), QUIET)
    assert_the_same(path / "served", path / "simulated")
    return by_simulator, by_server


def finished(path):
    file = path / "summary.json"
    return file.exists() and json.loads(file.read_text())["status"] == "finished"
