"""jaxproto's side of the comparison: the compiled programs of a run.

The round is `engine.next_state`, and correct predictions are those of the run's own
evaluation. Batches and first steps come from the functions of local training, called
with the key of the run, and scores from the method's `predict`.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax import lax

from benchmarks import synthetic
from benchmarks.memory import shortened
from benchmarks.parity import record
from benchmarks.parity.arrays import (
    Look,
    after,
    begun,
    by_client,
    of_server,
    rows,
    table,
    weights,
)
from benchmarks.parity.record import Order, Record, Start
from jaxproto import config as config_
from jaxproto.config import registries
from jaxproto.core import batches
from jaxproto.core.method import no_pre_upload
from jaxproto.core.types import Array, Data, Examples, Net, Tree
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.check import check_experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.methods import fedtgp
from jaxproto.metrics import ACCURACY
from jaxproto.prototypes import kernels
from jaxproto.round import client, federation
from jaxproto.round.federation import Cohort, Model
from jaxproto.summary import host_prototypes
from jaxproto.training import engine, programs
from jaxproto.training import program as program_
from jaxproto.training.programs import State

SWEEP = 64  # examples at a time


class Round(NamedTuple):
    """Record of a round, and its orders of examples."""

    record: Record
    order: Order


class Ours:
    """Federation in jaxproto that runs one round at a time."""

    def __init__(self, config: ml_collections.ConfigDict, most: int):
        """Builds the federation and compiles its programs.

        Args:
          config: configuration of a run.
          most: most examples that a client uses of each part; 0: all.
        """
        config_.check(config)
        exp = build.experiment(config, jax.default_backend())
        check_experiment(exp)
        exp = exp._replace(cohorts=tuple(map(without_dropout, exp.cohorts)))
        self.exp, self.seed, self.r = shortened(exp, most), config.seed, 0
        run = synthetic.Run(self.exp, config.seed)
        self.work, self.state = run.work, run.state
        self.shares = "collect" in config.method
        self.averages = "aggregate" in config.method
        trains = hasattr(self.state.server, "network")
        self.server_epochs = config.method.server_epochs if trains else 0
        name = config.method.get("aggregate", "mean_over_clients")
        self.mean = jax.jit(registries.OPTIONS["aggregate"][name])
        self.aligns = config.method.get("alignment") == "thomson"
        self.first = self.for_each(partial(first_messages, self.exp))
        self.diagnostics = self.for_each(partial(diagnostics, self.exp))
        self.score = self.for_each(partial(scores, self.exp))

    def for_each(self, f) -> list[Callable]:
        """Returns a jitted function per cohort."""
        return [jax.jit(partial(f, cohort)) for cohort in self.exp.cohorts]

    def start(self) -> Start:
        """Returns the initial state, from which PyTorch starts too."""
        names = {i: c.name for c in self.exp.cohorts for i in c.ids}
        dataset, ids = self.exp.dataset, range(len(names))
        return Start(
            x=np.array(dataset.x),
            y=np.array(dataset.y),
            names=[names[i] for i in ids],
            weights=weights(self.exp, self.state),
            train=rows(self.exp, self.exp.train),
            test=rows(self.exp, self.exp.test),
            counts=np.array(self.exp.counts.train),
            server=of_server(self.state.server),
            masks=host_prototypes.masks(self.exp.method, self.exp.spec.feat_dim),
            public=dataset.public,
        )

    def round(self) -> Round:
        """Runs the next round."""
        context, state = programs.round_context(self.seed, self.r), self.state
        down = self.broadcast(state)
        seen = self.by_client(
            f(context, down, clients, self.work.examples, shard)
            for f, clients, shard in zip(
                self.diagnostics, state.clients, self.exp.train, strict=True
            )
        )
        self.state, learnt = engine.next_state(self.work, self.r, state)
        self.r += 1
        made = begun(seen) | after(self.exp, self.state, learnt)
        made |= self.protos() if self.shares else {}
        if hasattr(self.state.server, "adapter"):
            made |= self.adapter()
        order = Order([s.order for s in seen], self.server_order(context[1]))
        return Round(made | self.evaluated(), order)

    def broadcast(self, state: State) -> Tree:
        """Returns the message that clients train with, of the last exchange."""
        down = self.work.compiled.broadcast(state.server).message
        method = self.exp.method
        if method.pre_upload is no_pre_upload:
            return down
        every = zip(self.first, state.clients, self.exp.train, strict=True)
        seen = self.by_client(f(down, c, self.work.examples, s) for f, c, s in every)
        messages = program_.stack_trees(seen)
        return method.broadcast(method.pre_aggregate(state.server, messages, None))

    def server_order(self, key: Array) -> np.ndarray | None:
        """Returns the order in which FedTGP's server takes the uploads of a round."""
        if not self.server_epochs:
            return None
        own = self.by_client(c.memory for c in self.state.clients)
        sent = np.concatenate([p.count > 0 for p in own])
        key = jax.random.fold_in(key, federation.SERVER)
        return np.array(fedtgp.batch_orders(sent, self.server_epochs, key))

    def adapter(self) -> Record:
        """Records RefProtoFL's anchors, and its adapter on the server."""
        server = self.state.server
        return {
            record.ANCHORS: {"server": table(server.anchors)},
            record.ADAPTER: {f"server, {k}": v for k, v in of_server(server).items()},
        }

    def by_client(self, parts) -> list[Tree]:
        """Splits the trees of all cohorts by client id, on the host."""
        return by_client(self.exp, parts)

    def protos(self) -> Record:
        """Records local and global prototypes."""
        own, server = self.by_client(c.memory for c in self.state.clients), {}
        local = {record.client(i): table(p) for i, p in enumerate(own)}
        protos = self.state.server.protos
        if self.averages:
            mean = self.mean(program_.stack_trees(own))
            steps = kernels.align(mean.mean, mean.count > 0)[1] if self.aligns else 0
            server[record.MEAN] = {"server": table(mean)}
            server[record.ITERATIONS] = {"server": np.asarray(steps, float)}
        else:  # sparse prototypes, with zeros outside the masks
            protos = self.exp.method.client_view(
                self.exp.method.broadcast(self.state.server)
            )
        if network := of_server(self.state.server):
            server[record.GENERATOR] = {f"server, {k}": v for k, v in network.items()}
        return {record.LOCAL: local, **server, record.GLOBAL: {"server": table(protos)}}

    def evaluated(self) -> Record:
        """Records scores, and correct predictions of the run's own evaluation."""
        down = self.work.compiled.broadcast(self.state.server).message
        examples = self.work.examples
        inputs = zip(self.score, self.state.clients, self.exp.test, strict=True)
        scores_of = self.by_client(f(down, c, examples, s) for f, c, s in inputs)
        model = Model(self.state.server, self.state.clients)
        ((_, sums),) = self.work.evaluate(self.r, model)
        right = self.by_client(sums)
        sizes, recorded = [len(r) for r in rows(self.exp, self.exp.test)], {}
        for rule in (rule for rule in record.RULES if rule in scores_of[0]):
            recorded[record.SCORES.format(rule)] = {
                record.client(i): record.below_best(s[rule][:n])
                for i, (s, n) in enumerate(zip(scores_of, sizes, strict=True))
            }
            recorded[record.CORRECT.format(rule)] = {
                record.client(i): np.asarray(n[rule][ACCURACY][0], float)
                for i, n in enumerate(right)
            }
        return recorded


def diagnostics(
    exp: Experiment, cohort: Cohort, context, down, clients, examples, shards
) -> Look:
    """Returns order, batches and first steps of a cohort's next round."""
    key = jax.random.fold_in(context[1], federation.TRAINING)
    local = exp.local.at_round(context[0])
    task = client.LocalTask(exp.method, cohort.net, local, key, down, examples)
    numbers = jnp.arange(len(examples.y), dtype=jnp.int32)
    max_steps = -(-shards.index.shape[1] // local.batch_size) * local.epochs

    def one(pair):
        session = client.begin_local_training(task, *pair)

        def step(session, s):
            last = jnp.minimum(s + 1, client.num_steps(session))
            one_step = partial(client.local_step, task, *pair)
            session = lax.fori_loop(s, last, one_step, session)
            return session, (session.params, session.norm, session.loss)

        first = jnp.arange(record.STEPS)
        _, (params, norm, losses) = lax.scan(step, session, first)
        steps, own = session.before.steps, Data(Examples(numbers, numbers), pair[1])
        per_epoch = jnp.maximum(steps // local.epochs, 1)

        def batch(s):
            at = session.order[s // per_epoch], s % per_epoch, local.batch_size, key
            batch_rows = batches.training_batch(own, *at)
            return jnp.where(batch_rows.mask > 0, batch_rows.y, -1)

        batch_rows = jax.vmap(batch)(jnp.arange(max_steps))
        return Look(session.order, batch_rows, steps, losses[0], params, norm)

    return lax.map(one, (clients, shards))


def first_messages(exp: Experiment, cohort: Cohort, down, clients, examples, shards):
    """Returns the messages that clients of a cohort send before they train."""

    def one(pair):
        own, shard = pair
        own = own.replace(params=exp.method.receive(own.params, down))
        return exp.method.pre_upload(cohort.net, own, Data(examples, shard), down)

    return lax.map(one, (clients, shards))


def without_dropout(cohort: CohortPlan) -> CohortPlan:
    """Replaces the network of a cohort by one without randomness in training."""
    net = cohort.net

    def apply(params, norm, x, train, key=None):
        return net.apply(params, norm, x, train)

    return dataclasses.replace(cohort, net=Net(net.init, apply, net.head))


def scores(exp: Experiment, cohort: Cohort, down, clients, examples, shards) -> Tree:
    """Returns test scores [K, M', C] of a cohort by rule; rows from M are padding."""
    longest = shards.index.shape[1]

    def one(pair):
        def chunk(i):
            at = jnp.minimum(i * SWEEP + jnp.arange(SWEEP), longest - 1)
            batch = batches.gather_examples(
                Data(examples, pair[1]), at, jnp.ones(SWEEP)
            )
            return exp.method.predict(cohort.net, pair[0], batch.x, down)

        scores_by_rule = lax.map(chunk, jnp.arange(-(-longest // SWEEP)))
        return jax.tree.map(lambda a: a.reshape(-1, a.shape[-1]), scores_by_rule)

    return lax.map(one, (clients, shards))
