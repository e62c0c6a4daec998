"""Client on a node: the programs of the simulator on a cohort of one client.

The cohort follows from the configuration and the partition; random numbers follow from
seed, round and id, as in the simulator, and under privacy from a secret of the node.
The node saves a checkpoint after each round it takes part in, so a server that resumes
a few rounds earlier finds the earlier state.
"""

import dataclasses
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections

from jaxproto import wire
from jaxproto.core.types import Client, Tree
from jaxproto.data.partitions.partition import (
    FederationData,
)
from jaxproto.errors import UserError
from jaxproto.experiment import build, cohorts
from jaxproto.experiment.build import Experiment
from jaxproto.io.owner_only import owner_only_folder
from jaxproto.nodes.flower import privacy_account, secret_keys
from jaxproto.nodes.flower.protocol import Messages, experiment
from jaxproto.round.evaluation import BY_CLIENT
from jaxproto.round.execution import one_by_one
from jaxproto.round.participation import Participation
from jaxproto.storage import checkpoint, records, workdir
from jaxproto.training import programs, xla_cache
from jaxproto.wrappers.privacy import EXAMPLE

Payload = dict[str, Any]  # the fields of a message: bytes, numbers and texts


class NodeCheckpoint(NamedTuple):
    """State in the checkpoint of a client."""

    client: Client  # arrays [1, ...]


def check_client_id(id: int, num_clients: int):
    """Raises UserError unless the federation has client `id`."""
    if not 0 <= id < num_clients:
        raise UserError(
            f"client={id} in the configuration of the node: the federation has "
            f"clients 0 to {num_clients - 1}."
        )


def single_client_experiment(exp: Experiment, id: int) -> Experiment:
    """Returns the experiment with one client: a single cohort of that client."""
    cohort_index = next(n for n, c in enumerate(exp.cohorts) if id in c.ids)
    cohort, table = exp.cohorts[cohort_index], exp.train[cohort_index]
    row = cohort.ids.index(id)
    rows, rules = jax.tree.map(lambda a: a[row : row + 1], table), cohort.scoring.rules
    alone = dataclasses.replace(
        cohorts.with_all_in_one_call(cohort),
        ids=(id,),
        mode=one_by_one(),
        sample=None,
        scoring=BY_CLIENT._replace(rules=rules),
    )
    return exp._replace(
        cohorts=(alone,),
        train=(rows,),
        test=cohorts.evaluation_tables((alone,), exp.partition),
        method=exp.method.collecting(),  # the upload is sent, not summed
        parts=lambda floats: exp.parts(floats).collecting(),
        store="device",
    )


class Node:
    """Client of a federation, with its data, programs and checkpoints."""

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        id: int,
        path: Path,
        data: FederationData | None = None,
    ):
        """Builds the programs of the client.

        Args:
          path: Folder of the client.
          data: Data; None loads the data set that the configuration names.
        """
        xla_cache.enable_xla_cache()
        self.config, self.id, self.path = config, id, path
        federation = experiment(config, data=data)
        check_client_id(id, len(federation.counts.train))
        self.exp = single_client_experiment(federation, id)
        self.messages = Messages(self.exp, federation.cohorts)
        self.run = programs.jit_programs(self.exp)
        self.examples = build.examples(federation.dataset)
        self._context = secret_keys.round_contexts(config, path)
        self._settings = workdir.settings(config) | {"client": id}

    def answer(self, stage: str, message: Payload, memory: MutableMapping) -> Payload:
        """Answers a message of the server.

        Args:
          stage: "first" (of two exchanges), "train" or "evaluate".
          message: Round (from 0), broadcast, and whether the server uses the upload.
          memory: State kept from the first exchange to the second.
        """
        if stage == "first":
            return self._first(message, memory)
        if stage == "train":
            return self._train(message, memory)
        return self._evaluate(message)

    def _first(self, message: Payload, memory: MutableMapping) -> Payload:
        shapes, missing = self.messages.split(self.messages.down_shapes)
        r = message["round"]
        first = self.messages.decode(message["down"], shapes, r)
        memory["first"], memory["round"] = message["down"], r
        empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), missing)
        down = wire.unpack(self.messages.join(first, empty))
        uploads, _ = self.run.pre_upload[0](*self._arguments(r, True, down))
        return {"up": self._encode(uploads.up, r)}

    def _train(self, message: Payload, memory: MutableMapping) -> Payload:
        down, r = self._receive(message, memory), message["round"]
        privacy_account.check_training(self.config, self.path, r, message["down"])
        args = self._arguments(r, message["reports"], down)
        client, uploads, report = self.run.train[0](*args)
        finite = bool(report.usable[0] & report.finite[0])
        if finite:
            self._save(r + 1, client)
        fields = ("loss", float), ("steps", int)
        reply: Payload = {k: kind(getattr(report, k)[0]) for k, kind in fields}
        reply["finite"] = finite
        if self.config.privacy.unit == EXAMPLE:
            del reply["loss"]  # an exact function of the examples
        if message["reports"]:
            reply["up"] = self._encode(uploads.up, r)
        return reply

    def _evaluate(self, message: Payload) -> Payload:
        like, r = self.messages.down_shapes, message["round"]
        privacy_account.check_evaluation(self.config, r)
        down = wire.unpack(self.messages.decode(message["down"], like, r))
        args = self.client(r), self.examples, *self.exp.test
        sums = self.run.evaluate[0](down, *args)
        return {"up": self._encode(sums, r)}

    def _receive(self, message: Payload, memory: MutableMapping) -> Tree:
        """Returns the unpacked broadcast."""
        like, r = self.messages.down_shapes, message["round"]
        if not self.exp.method.two_exchanges:
            return wire.unpack(self.messages.decode(message["down"], like, r))
        if memory.get("round") != r:
            raise UserError(
                f"client {self.id} has no first exchange of round {r + 1}: its node "
                "was started anew since; it takes part from the next round."
            )
        shapes, rest = self.messages.split(like)
        first = self.messages.decode(memory["first"], shapes, r)
        second = self.messages.decode(message["down"], rest, r)
        return wire.unpack(self.messages.join(first, second))

    def _encode(self, up: Tree, r: int) -> bytes:
        up = jax.tree.map(lambda a: a[0], up)
        return self.messages.encode(up, r, self.id)

    def _arguments(self, r: int, reports: bool, down: Tree) -> tuple:
        """Returns the arguments of programs in which only this client trains."""
        is_client = jnp.arange(len(self.exp.counts.train)) == self.id
        who = Participation(is_client, is_client & reports)
        shared = self._context(r), who, down
        return *shared, self.client(r), self.examples, *self.exp.train

    def client(self, r: int) -> Client:
        """Returns the state of the client before round `r`."""
        ids, count = programs.client_ids_and_counts(self.exp, self.exp.cohorts[0])
        key = programs.keys(self.config.seed)[0]
        initial = self.run.start_clients[0](key, ids, count)
        saved, covered = checkpoint.rounds(self.path), records.COMPLETE
        is_new = not saved or (saved[0] > r and len(saved) < checkpoint.KEEP)
        if not is_new:
            covered = records.Coverage(r, f"round {r} of the server")
        restored = checkpoint.restore_latest(  # refuses those of another run
            self.path, NodeCheckpoint(initial), self._settings, covered
        )
        return initial if is_new or restored is None else restored.state.client

    def _save(self, rounds: int, client: Client):
        owner_only_folder(self.path)
        checkpoint.save(self.path, rounds, NodeCheckpoint(client), self._settings)
