"""Many faults in one federation, with calls in the place of messages."""

import random

import jax.numpy as jnp
import numpy as np
import pytest
from support import federated
from support.federated import Calls, Killed
from support.hostile_folders import flip
from support.simulated import QUIET, simulated, small

from jaxproto.experiment import build
from jaxproto.nodes.flower.accept import REFUSED
from jaxproto.nodes.flower.server_run import FAULTS, run_server
from jaxproto.round.participation import Participation
from jaxproto.storage import records

CLIENTS = 3
TRAINS = ("upload damaged", "killed after training")  # the client has trained then
LOST = ("killed before training", "broadcast damaged", "not there")
KINDS = (*TRAINS, *LOST)
WORDS = {"not there": "it is not connected", "upload damaged": "message is refused"}
WORDS["broadcast damaged"] = ""  # a bit of its header, or of its payload
SERVER_KILLED = "server killed"


def planned(number, kills, last):
    """Faults by round, from 1, and client; those of the server have no client."""
    rng = random.Random(7)
    places = [(r, i) for r in range(1, last + 1) for i in range(CLIENTS)]
    chosen = rng.sample(places, number - kills)
    found = {at: KINDS[n % len(KINDS)] for n, at in enumerate(chosen)}
    killed = rng.sample(range(2, last + 1), kills)
    return found | {(r, None): SERVER_KILLED for r in killed}


class Faulty(Calls):
    """A link to nodes of the same process, on which the plan happens."""

    def __init__(self, c, path, plan):
        super().__init__(c, path)
        self.plan, self.rng, self.every = plan, random.Random(7), c.eval_every
        self.round, self.evaluates = 1, False  # that comes next

    def members(self):
        if self.evaluates:  # which finds all of them
            return super().members()
        lost = {i for i in self.there if self.plan.get((self.round, i)) == "not there"}
        return self.there - lost

    def ask(self, stage, told):
        if stage == "evaluate":
            self.evaluates = False
            return super().ask(stage, told)
        answers = {i: self.trained(i, of) for i, of in told.items()}
        if self.plan.pop((self.round, None), None):
            raise Killed
        self.evaluates = self.round % self.every == 0
        self.round += 1
        return answers

    def trained(self, i, told):
        kind = self.plan.get((told["round"] + 1, i))
        if kind == "killed before training":
            return {REFUSED: kind}
        if kind == "broadcast damaged":
            told = told | {"down": self.damaged(told["down"])}
        said = super().ask("train", {i: told})[i]
        if kind == "killed after training":
            return {REFUSED: kind}
        if kind == "upload damaged":
            return said | {"up": self.damaged(said["up"])}
        return said

    def damaged(self, data):
        return flip(data, self.rng.randrange(8 * len(data)))


def absent(plan, last):
    """The simulator's sampler of the same losses."""
    trains, reports = np.ones((2, last, CLIENTS), bool)
    for (r, i), kind in plan.items():
        if i is not None:
            trains[r - 1, i], reports[r - 1, i] = kind in TRAINS, False

    def sampler(key, num_clients, r):
        del key, num_clients
        return Participation(jnp.asarray(trains)[r], jnp.asarray(reports)[r])

    return sampler


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "kills", "last", "every"),
    [pytest.param(6, 1, 3, 1, marks=pytest.mark.landing), (50, 2, 20, 5)],
)
def test_faults_lose_the_messages_that_were_named_and_no_round(
    number, kills, last, every, tmp_path, monkeypatch
):
    c, plan = small("fedproto", last, eval_every=every), planned(number, kills, last)
    assert len(plan) == number and {*plan.values()} == {*KINDS, SERVER_KILLED}
    link = Faulty(c, tmp_path / "nodes", dict(plan))
    for _ in range(kills):  # the server is started again each time
        with pytest.raises(Killed):
            run_server(c, tmp_path / "run", link, QUIET)
    run_server(c, tmp_path / "run", link, QUIET)
    monkeypatch.setattr(build, "build_sampler", lambda _: absent(plan, last))
    simulated(c, tmp_path / "simulated")
    faults = records.read(tmp_path / "run" / FAULTS)
    named = {(f["round"], f["client"]): f["why"] for f in faults}
    assert named.keys() == {at for at in plan if at[1] is not None}
    for at, said in named.items():
        assert WORDS.get(plan[at], plan[at]) in said
    assert federated.rounds(tmp_path / "run") == list(range(every, last + 1, every))
    both = (federated.metrics(tmp_path / n) for n in ("run", "simulated"))
    for one, other in zip(*both, strict=True):
        gone = [plan.get((one["round"], i)) == "not there" for i in range(CLIENTS)]
        assert one["participants"] == CLIENTS - sum(gone)
        assert one["rules"] == other["rules"]
        assert one["bytes_by_client"]["up"] == other["bytes_by_client"]["up"]
