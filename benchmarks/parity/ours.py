"""jaxproto's side: the compiled programs of a run, and what is seen between them.

The round is `rounds.one_round` and the counts are those of the run's own evaluation.
Batches and the loss of the first step come from the client step's own functions, called
with the same key, and scores from the method's own `predict`.
"""

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
from benchmarks.parity.record import Record, Start
from jaxproto import batches, client, kernels
from jaxproto import config as config_
from jaxproto.config import registries
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.federation import Cohort, Model
from jaxproto.metrics import ACCURACY
from jaxproto.models import to_torch
from jaxproto.training import evaluation, programs, rounds
from jaxproto.training.programs import State
from jaxproto.types import Array, Data, Examples, Protos, Shard, Tree

SWEEP = 64  # examples at a time


class Round(NamedTuple):
    """What one round gave."""

    record: Record
    order: list[np.ndarray]  # [E, M] positions of each client's epochs, by id


class Ours:
    """A federation that goes on by one round at a time."""

    def __init__(self, config: ml_collections.ConfigDict, most: int = 0):
        """Builds and compiles.

        Args:
          config: of a run.
          most: examples that a client uses of each part; 0 is all.
        """
        config_.check(config)
        exp = build.experiment(config, jax.default_backend())
        build.check_experiment(exp)
        self.exp, self.seed, self.r = shortened(exp, most), config.seed, 0
        self.work, self.state, _ = synthetic.start(self.exp, config.seed)
        self.shares = "aggregate" in config.method
        name = config.method.get("aggregate", "mean_over_clients")
        self.mean = jax.jit(registries.OPTIONS["aggregate"][name])
        self.aligns = config.method.get("alignment") == "thomson"
        self.diagnostics = self.for_each(partial(diagnostics, self.exp))
        self.score = self.for_each(partial(scores, self.exp))

    def for_each(self, f) -> list[Callable]:
        """A jitted function per cohort."""
        return [jax.jit(partial(f, cohort)) for cohort in self.exp.cohorts]

    def start(self) -> Start:
        """What PyTorch starts from too."""
        names = {i: c.name for c in self.exp.cohorts for i in c.ids}
        dataset, ids = self.exp.dataset, range(len(names))
        return Start(
            x=np.array(dataset.x),
            y=np.array(dataset.y),
            names=[names[i] for i in ids],
            weights=weights(self.exp, self.state),
            train=rows(self.exp, self.exp.train),
            test=rows(self.exp, self.exp.test),
        )

    def round(self) -> Round:
        """The next round."""
        context, state = programs.round_context(self.seed, self.r), self.state
        down = self.work.compiled.broadcast(state.server).message
        seen = self.by_client(
            f(context, down, clients, self.work.examples, shard)
            for f, clients, shard in zip(
                self.diagnostics, state.clients, self.exp.train, strict=True
            )
        )
        self.state, learnt = rounds.one_round(self.work, self.r, state)
        self.r += 1
        made = begun(seen) | after(self.exp, self.state, learnt)
        made |= self.protos() if self.shares else {}
        return Round(made | self.evaluated(), [s.order for s in seen])

    def by_client(self, parts) -> list[Tree]:
        """Rows of all cohorts by client id, on the host."""
        return by_client(self.exp, parts)

    def protos(self) -> Record:
        """Local and global prototypes."""
        own = self.by_client(c.memory for c in self.state.clients)
        mean = self.mean(jax.tree.map(lambda *a: jnp.stack(a), *own))
        steps = kernels.align(mean.mean, mean.count > 0)[1] if self.aligns else 0
        return {
            record.LOCAL: {record.client(i): table(p) for i, p in enumerate(own)},
            record.MEAN: {"server": table(mean)},
            record.ITERATIONS: {"server": np.asarray(steps, float)},
            record.GLOBAL: {"server": table(self.state.server.protos)},
        }

    def evaluated(self) -> Record:
        """Scores, and the correct predictions of the run's own evaluation."""
        down = self.work.compiled.broadcast(self.state.server).message
        examples = self.work.examples
        every = zip(self.score, self.state.clients, self.exp.test, strict=True)
        found = self.by_client(f(down, c, examples, s) for f, c, s in every)
        told = evaluation.run_evaluation(
            self.work, Model(self.state.server, self.state.clients)
        )
        right = self.by_client(told.sums)
        sizes, made = [len(r) for r in rows(self.exp, self.exp.test)], {}
        for rule in (rule for rule in record.RULES if rule in found[0]):
            made[record.SCORES.format(rule)] = {
                record.client(i): record.below_best(s[rule][:n])
                for i, (s, n) in enumerate(zip(found, sizes, strict=True))
            }
            made[record.CORRECT.format(rule)] = {
                record.client(i): np.asarray(n[rule][ACCURACY][0], float)
                for i, n in enumerate(right)
            }
        return made


class Look(NamedTuple):
    """What is known of a client before it has trained."""

    order: Array  # [E, M]
    rows: Array  # [S, B] of the pool, -1 where no example counts
    steps: Array
    loss: Array  # of the first step
    params: Tree  # [S, ...] after each of the first steps
    norm: Tree


def diagnostics(
    exp: Experiment, cohort: Cohort, context, down, clients, examples, shards
) -> Look:
    """Order, batches and first loss of a cohort's next round, without training it."""
    key = jax.random.fold_in(context.key, 1)  # as in programs.functions
    local = exp.local.at_round(context.r)
    task = client.LocalTask(exp.method, cohort.net, local, key, down, examples)
    numbers = jnp.arange(len(examples.y), dtype=jnp.int32)
    most = -(-shards.index.shape[1] // local.batch_size) * local.epochs

    def one(both):
        session = client.begin_local_training(task, *both)

        def step(session, s):
            session = client.local_steps(task, session, s, s + 1, *both)
            return session, (session.params, session.norm, session.loss)

        _, first = lax.scan(step, session, jnp.arange(record.STEPS))
        steps, own = session.before.steps, Data(Examples(numbers, numbers), both[1])
        each = jnp.maximum(steps // local.epochs, 1)

        def batch(s):
            at = session.order[s // each], s % each, local.batch_size, key
            found = batches.training_batch(own, *at)
            return jnp.where(found.mask > 0, found.y, -1)

        found = jax.vmap(batch)(jnp.arange(most))
        return Look(session.order, found, steps, first[2][0], *first[:2])

    return lax.map(one, (clients, shards))


def scores(exp: Experiment, cohort: Cohort, down, clients, examples, shards) -> Tree:
    """Scores [K, M', C] of a cohort's test examples by rule; past M is padding."""
    longest = shards.index.shape[1]

    def one(both):
        def chunk(i):
            at = jnp.minimum(i * SWEEP + jnp.arange(SWEEP), longest - 1)
            batch = batches.gather_examples(
                Data(examples, both[1]), at, jnp.ones(SWEEP)
            )
            return exp.method.predict(cohort.net, both[0], batch.x, down)

        found = lax.map(chunk, jnp.arange(-(-longest // SWEEP)))
        return jax.tree.map(lambda a: a.reshape(-1, a.shape[-1]), found)

    return lax.map(one, (clients, shards))


def by_client(exp: Experiment, parts) -> list[Tree]:
    """Rows of the trees that cohorts return, by client id, on the host."""
    found = {}
    for cohort, part in zip(exp.cohorts, jax.device_get([*parts]), strict=True):
        for k, i in enumerate(cohort.ids):
            found[i] = jax.tree.map(lambda a, k=k: a[k], part)
    return [found[i] for i in sorted(found)]


def rows(exp: Experiment, shards: tuple[Shard, ...]) -> list[np.ndarray]:
    """Rows of the pool that each client has."""
    return [np.array(s.index[: s.size]) for s in by_client(exp, shards)]


def weights(exp: Experiment, state: State) -> list[dict[str, np.ndarray]]:
    """Parameters and statistics of each client by PyTorch's names."""
    every = by_client(exp, [(c.params, c.norm) for c in state.clients])
    return [of_network(*both) for both in every]


def of_network(params: Tree, norm: Tree) -> dict[str, np.ndarray]:
    """Those of a client's network."""
    return to_torch(params["net"], norm["net"])


def first_steps(seen: Look) -> dict[str, np.ndarray]:
    """Weights of a client after each of its first steps [S, ...]."""
    every = []
    for i in range(min(int(seen.steps), record.STEPS)):
        both = jax.tree.map(lambda a, i=i: a[i], (seen.params, seen.norm))
        every.append(of_network(*both))
    return record.stacked(every)


def begun(seen: list[Look]) -> Record:
    """Batches, and what the first steps did."""
    return {
        record.BATCHES: {
            record.client(i): s.rows[: s.steps] for i, s in enumerate(seen)
        },
        record.FIRST: {record.client(i): s.loss for i, s in enumerate(seen)},
        record.STEP: record.of_clients([first_steps(s) for s in seen]),
    }


def after(exp: Experiment, state: State, learnt: rounds.RoundSummary) -> Record:
    """Weights, and the loss that a run logs."""
    return {
        record.WEIGHTS: record.of_clients(weights(exp, state)),
        record.LOSS: {"all clients": np.asarray(learnt.loss)},
    }


def table(protos: Protos) -> np.ndarray:
    """Prototypes [C, D], NaN where there is none."""
    return record.where_present(np.asarray(protos.mean), np.asarray(protos.count))
