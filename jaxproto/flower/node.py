"""A client on a node of its own: the simulator's programs on a cohort of one.

Its id and cohort follow from the configuration and the partition, all that is random
in it from seed, round and id, as in the simulator. What it keeps between rounds stays
in its own folder, a checkpoint for each round that it took part in, so that a server
which begins again a few rounds before finds it as it was then.
"""

import dataclasses
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import batches, wire
from jaxproto.errors import UserError
from jaxproto.evaluation import BY_CLIENT
from jaxproto.execution import one_by_one
from jaxproto.experiment import build, cohorts
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.data import FederationData
from jaxproto.flower.protocol import Messages, experiment
from jaxproto.participation import Participation
from jaxproto.storage import checkpoint, records
from jaxproto.storage import workdir as folder
from jaxproto.training import programs, xla_cache
from jaxproto.types import Client, Tree

Answer = dict[str, Any]  # of a message, by field: bytes, numbers, texts


class NodeCheckpoint(NamedTuple):
    """What a checkpoint of a client holds."""

    client: Client  # [1, ...]


def single_client_experiment(exp: Experiment, id: int) -> Experiment:
    """The experiment as one of its clients has it: a cohort of one."""
    number = next(n for n, c in enumerate(exp.cohorts) if id in c.ids)
    cohort, table = exp.cohorts[number], exp.train[number]
    at = cohort.ids.index(id)
    own, rules = jax.tree.map(lambda a: a[at : at + 1], table), cohort.scoring.rules
    return exp._replace(
        cohorts=(
            dataclasses.replace(
                cohorts.with_all_in_one_call(cohort),
                ids=(id,),
                mode=one_by_one(),
                sample=(),
                scoring=BY_CLIENT._replace(rules=rules),
            ),
        ),
        train=(own,),
        test=(batches.tables([exp.partition.test[id]]),),
        method=exp.method.collecting(),  # its upload is sent, not added up
        parts=lambda floats: exp.parts(floats).collecting(),
        store="device",
    )


class Node:
    """One client of a federation."""

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        id: int,
        path: Path,
        given: FederationData | None = None,
    ):
        """Of a configuration.

        Args:
          path: the client's own folder.
          given: the data; None are those of the configuration.

        Raises:
          UserError: there is no such client.
        """
        xla_cache.enable_xla_cache()
        self.config, self.id, self.path = config, id, path
        whole = experiment(config, given=given)
        if not 0 <= id < len(whole.counts.train):
            raise UserError(
                f"client={id} in the configuration of the node: the federation has "
                f"clients 0 to {len(whole.counts.train) - 1}."
            )
        self.exp = single_client_experiment(whole, id)
        self.messages = Messages(self.exp)
        twice = self.messages.twice
        self.halves = self.messages.halves(whole.cohorts) if twice else []
        made = jax.tree.map(jax.jit, programs.build_programs(self.exp))
        self.run = programs.with_floats(made, self.exp.floats)
        self.examples = build.examples(whole.dataset)

    def answer(self, stage: str, told: Answer, memory: MutableMapping) -> Answer:
        """What the client says to a message of the server.

        Args:
          stage: "first" of two exchanges, "train" or "evaluate".
          told: the message: round, from 0, the broadcast, whether the upload arrives.
          memory: which lasts from the first exchange to the second.

        Raises:
          UserError: the message is damaged, or the client is not there any more.
        """
        if stage == "first":
            return self._first(told, memory)
        if stage == "train":
            return self._train(told, memory)
        return self._evaluate(told)

    def _first(self, told: Answer, memory: MutableMapping) -> Answer:
        here, rest = self.messages.split(self.messages.down, self.halves)
        one = self.messages.decode(told["down"], here, "down")
        memory["first"], memory["round"] = told["down"], told["round"]
        empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), rest)
        down = wire.unpack(self.messages.joined(self.halves, one, empty))
        context = programs.round_context(self.config.seed, told["round"])
        inputs = programs.RoundInputs(context, self._taking_part(True), down)
        own = self.client(told["round"]), self.examples, *self.exp.train
        uploads, report = self.run.pre_upload[0](inputs, *own)
        return {"up": self._encoded(uploads.up), "sent": int(report.sent[0])}

    def _train(self, told: Answer, memory: MutableMapping) -> Answer:
        down, r = self._received(told, memory), told["round"]
        context = programs.round_context(self.config.seed, r)
        who = self._taking_part(told["reports"])
        inputs = programs.RoundInputs(context, who, down)
        own = self.client(r), self.examples, *self.exp.train
        client, uploads, report = self.run.train[0](inputs, *own)
        self._keep(r + 1, client)
        said: Answer = {
            "loss": float(report.loss[0]),
            "steps": int(report.steps[0]),
            "finite": bool(report.finite[0]),
            "sent": int(report.sent[0]),
        }
        return said | ({"up": self._encoded(uploads.up)} if told["reports"] else {})

    def _evaluate(self, told: Answer) -> Answer:
        down = wire.unpack(
            self.messages.decode(told["down"], self.messages.down, "down")
        )
        client = self.client(told["round"])
        sums = self.run.evaluate[0](down, client, self.examples, *self.exp.test)
        each = jax.tree.leaves(jax.device_get(sums))
        return {
            f"{n}": np.ascontiguousarray(a[0]).tobytes() for n, a in enumerate(each)
        }

    def _received(self, told: Answer, memory: MutableMapping) -> Tree:
        """The broadcast as the client has it."""
        like = self.messages.down
        if not self.messages.twice:
            return wire.unpack(self.messages.decode(told["down"], like, "down"))
        if memory.get("round") != told["round"]:
            raise UserError(
                f"client {self.id} has no first exchange of round {told['round'] + 1}: "
                "its node was started anew since; it takes part from the next round."
            )
        here, rest = self.messages.split(like, self.halves)
        one = self.messages.decode(memory["first"], here, "down")
        other = self.messages.decode(told["down"], rest, "down")
        return wire.unpack(self.messages.joined(self.halves, one, other))

    def _encoded(self, up: Tree) -> bytes:
        return self.messages.encode(jax.tree.map(lambda a: a[0], up), "up")

    def _taking_part(self, reports: bool) -> Participation:
        """The client alone, as the programs have it."""
        mine = jnp.arange(len(self.exp.counts.train)) == self.id
        return Participation(mine, mine & reports)

    # Between rounds

    def begun(self) -> Client:
        """The client before its first round."""
        ids, count = programs.client_ids_and_counts(self.exp, self.exp.cohorts[0])
        key = programs.keys(self.config.seed)[0]
        return self.run.start_clients[0](key, ids, count)

    def client(self, r: int) -> Client:
        """The client after the rounds before `r` that it took part in.

        Raises:
          UserError: its folder is damaged, or does not go back so far.
        """
        start, there = self.begun(), checkpoint.rounds(self.path)
        if not there or (there[0] > r and len(there) < checkpoint.KEEP):
            return start
        until = records.Coverage(r, f"round {r} of the server")
        settings = folder.settings(self.config) | {"client": self.id}
        found = checkpoint.restore_latest(
            self.path, NodeCheckpoint(start), settings, until
        )
        return start if found is None else found.state.client

    def _keep(self, rounds: int, client: Client):
        settings = folder.settings(self.config) | {"client": self.id}
        checkpoint.save(self.path, rounds, NodeCheckpoint(client), settings)
