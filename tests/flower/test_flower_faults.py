"""Fifty faults in one federation, with calls in the place of messages."""

import random

import jax.numpy as jnp
import numpy as np
from rich.console import Console

import jaxproto
from jaxproto import config
from jaxproto.config import build
from jaxproto.errors import UserError
from jaxproto.flower.folder import FAULTS, serve
from jaxproto.flower.node import Node
from jaxproto.flower.server import REFUSED
from jaxproto.participation import Participation
from jaxproto.storage import records

QUIET = Console(quiet=True)
CLIENTS, ROUNDS, EVERY = 3, 20, 5
TRAINS = ("upload damaged", "killed after training")  # the client has trained then
LOST = ("killed before training", "broadcast damaged", "not there")
SERVER_KILLED = "server killed"


class Killed(BaseException):
    """The server goes, whatever it was doing."""


def planned(seed, number):
    """Faults by round, from 1, and client; those of the server have no client."""
    rng = random.Random(seed)
    places = [(r, i) for r in range(1, ROUNDS + 1) for i in range(CLIENTS)]
    kinds = [*TRAINS, *LOST]
    chosen = rng.sample(places, number - 2)
    faults = {at: kinds[n % len(kinds)] for n, at in enumerate(chosen)}
    kills = rng.sample(range(2, ROUNDS + 1), 2)
    return faults | {(r, None): SERVER_KILLED for r in kills}


class Faulty:
    """A link to nodes of the same process, on which the plan happens."""

    def __init__(self, c, path, plan, seed):
        self.nodes = [Node(c, i, path / str(i)) for i in range(CLIENTS)]
        self.plan, self.rng = plan, random.Random(seed)
        self.round, self.evaluates = 1, False  # that comes next

    def members(self):
        everyone = set(range(CLIENTS))
        if self.evaluates:  # which finds all of them
            return everyone
        return {i for i in everyone if self.plan.get((self.round, i)) != "not there"}

    def ask(self, stage, told):
        if stage == "evaluate":
            self.evaluates = False
            return {i: self.nodes[i].answer(stage, of, {}) for i, of in told.items()}
        answers = {i: self.trained(i, of) for i, of in told.items()}
        if self.plan.pop((self.round, None), None):
            raise Killed
        self.evaluates = self.round % EVERY == 0
        self.round += 1
        return answers

    def trained(self, i, told):
        kind = self.plan.get((told["round"] + 1, i))
        if kind == "killed before training":
            return {REFUSED: kind}
        if kind == "broadcast damaged":
            told = told | {"down": self.damaged(told["down"])}
        try:
            said = self.nodes[i].answer("train", told, {})
        except UserError as e:
            return {REFUSED: str(e)}
        if kind == "killed after training":
            return {REFUSED: kind}
        if kind == "upload damaged":
            return said | {"up": self.damaged(said["up"])}
        return said

    def damaged(self, data):
        at = self.rng.randrange(len(data))
        return (
            data[:at] + bytes([data[at] ^ 1 << self.rng.randrange(8)]) + data[at + 1 :]
        )


def absent(plan):
    """The simulator's sampler of the same losses."""
    trains, reports = np.ones((2, ROUNDS, CLIENTS), bool)
    for (r, i), kind in plan.items():
        if i is not None:
            trains[r - 1, i], reports[r - 1, i] = kind in TRAINS, False

    def sampler(key, num_clients, r):
        del key, num_clients
        return Participation(jnp.asarray(trains)[r], jnp.asarray(reports)[r])

    return sampler


def served(c, path, link):
    """The server, started again whenever it is killed."""
    for _ in range(3):
        try:
            serve(c, path, link, QUIET)
        except Killed:
            continue
        return
    raise AssertionError("it was killed more often than planned")


def test_fifty_faults_lose_the_messages_that_were_named_and_no_round(
    tmp_path, monkeypatch
):
    c = config.experiment("fedproto", "digits")
    c.rounds, c.data.clients, c.eval_every, c.model.group = (
        ROUNDS,
        CLIENTS,
        EVERY,
        "mlp",
    )
    c.model.feat_dim = 8
    plan = planned(seed=7, number=50)
    link = Faulty(c, tmp_path / "nodes", dict(plan), seed=7)
    served(c, tmp_path / "run", link)
    monkeypatch.setattr(build, "build_sampler", lambda _: absent(plan))
    jaxproto.run(c, tmp_path / "simulated", QUIET)
    assert len(plan) == 50
    found = records.read(tmp_path / "run" / FAULTS)
    named = {(f["round"], f["client"]) for f in found}
    assert named == {at for at in plan if at[1] is not None}
    ran, simulated = (
        records.read(tmp_path / n / "metrics.jsonl") for n in ("run", "simulated")
    )
    assert [r["round"] for r in ran] == [5, 10, 15, 20]
    for one, other in zip(ran, simulated, strict=True):
        assert one["rules"] == other["rules"]
        assert one["bytes_by_client"]["up"] == other["bytes_by_client"]["up"]
