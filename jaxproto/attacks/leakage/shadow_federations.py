"""Membership inference by shadow federations: the likelihood ratio attack (LiRA).

Threat model: an honest-but-curious server that has the upload, the configuration and
its seed, a network as in `membership.py`, and a pool of examples for every client. The
client trained on some of its pool. The server trains shadow federations, in which each
client has a random half of its pool. One program trains all, with a leading axis.

For an example, the scores of the uploads of shadow federations with and without it are
two normal distributions with the example's means and the variances of all examples.
The test is the ratio of their densities at the score of the real upload (Carlini et
al., S&P 2022, Section VI; the log of odds for networks, minus the log of the distance
for prototypes). The row `threshold` compares scores without shadow federations.

A pool is all training and test examples of the client. Shadow federations resemble the
run most if `data.train_share` is 0.5.

Limits: methods with one exchange per round. The attacker is strong: it knows all
examples of the pool and lacks only which ones the client trained on.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.attacks.leakage import attack_cases, membership, next_upload, scores
from jaxproto.attacks.leakage.attack_cases import AttackCase, AttackRequest
from jaxproto.attacks.leakage.attacker import examples
from jaxproto.attacks.leakage.next_upload import NextRound, RoundStages
from jaxproto.core import batches
from jaxproto.core.types import Array, Shard
from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.round import federation
from jaxproto.round.client import LocalTask
from jaxproto.round.federation import Model
from jaxproto.training import programs

STATISTICS = {  # source -> nearly normal statistic of a score of `membership.py`
    "weights": lambda score: -np.log(np.expm1(-score)),
    "prototypes": lambda score: -np.log(-score),
}
TINY = 1e-12  # smallest loss or distance


class ShadowFederations(NamedTuple):
    """Federations after the rounds of a run; arrays have a leading axis S."""

    models: Model
    shards: tuple[Shard, ...]  # per cohort, [S, K, ...]
    inside: list[np.ndarray]  # per client: which pool examples it trains on, [S, P]


def attack_lira(
    next: NextRound, request: AttackRequest, ids: Sequence[int]
) -> Iterator[tuple[AttackCase, attack_cases.AttackResult]]:
    """Infers membership by the likelihood ratio and, for comparison, by a threshold."""
    check(next, request)
    shadows = train_shadows(next, request.shadows, request.seed)
    stages = last_rounds(next, shadows)
    for id in ids:
        shadow_stages = stages(id)
        for case in attack_cases.attack_cases(next, request, [id]):
            yield from _compare(pool_case(case), shadow_stages, shadows.inside[id])


def check(next: NextRound, request: AttackRequest):
    """Raises UserError if shadow federations cannot be trained or compared."""
    tests = np.concatenate(next.run.exp.partition.test)
    if request.shadows < 4 or request.shadows % 2:
        advice = "give an even number of shadows from 4."
    elif (request.body, request.broadcast) != ("own", "honest"):
        advice = "use membership for other bodies and broadcasts."
    elif next.run.exp.method.two_exchanges:
        advice = "use membership for methods with two exchanges per round."
    elif len(np.unique(tests)) < len(tests):
        advice = "set data.pool to True: clients of the run share test examples."
    else:
        return
    raise UserError(f"lira cannot be computed: {advice}")


def halves(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns random halves of a pool [count, size]; row 2k + 1 complements row 2k."""
    first = rng.permuted(np.tile(np.arange(size) % 2 == 0, (count // 2, 1)), axis=1)
    return np.stack([first, ~first], 1).reshape(count, size)


def train_shadows(next: NextRound, count: int, seed: int) -> ShadowFederations:
    """Trains federations from the initial state of the run as one program."""
    exp, rng = next.run.exp, np.random.default_rng(seed)
    pairs = zip(exp.partition.train, exp.partition.test, strict=True)
    pools = [np.concatenate(pair) for pair in pairs]
    inside = [halves(len(rows), count, rng) for rows in pools]

    def tables(ids) -> tuple[Shard, np.ndarray]:
        rows = [pools[i][inside[i][s]] for s in range(count) for i in ids]
        per_class = partial(np.bincount, minlength=exp.spec.num_classes)
        counts = np.stack([per_class(exp.dataset.y[own]) for own in rows])
        return jax.tree.map(
            lambda a: a.reshape(count, len(ids), *a.shape[1:]),
            (batches.tables(rows), counts.astype(np.float32)),
        )

    shards, counts = zip(*(tables(cohort.ids) for cohort in exp.cohorts), strict=True)
    whole, floats = build.federation(exp), dict(exp.floats)
    start_keys = programs.keys(next.run.config.seed)[:2]  # of clients and server

    def train(s: Array, shards, counts, start_keys) -> Model:
        shadow = whole._replace(shards=shards, counts=counts)
        key = jax.random.fold_in(next.key, s)

        def one_round(model, r):
            round_key = jax.random.fold_in(key, r)
            return federation.one_round(shadow, floats, round_key, model, r)[0], ()

        model = federation.init_model(shadow, floats, start_keys)
        return lax.scan(one_round, model, jnp.arange(next.run.round))[0]

    train_all = jax.jit(jax.vmap(train, (0, 0, 0, None)))
    models = train_all(jnp.arange(count), shards, counts, start_keys)
    return ShadowFederations(models, shards, inside)


def last_rounds(
    next: NextRound, shadows: ShadowFederations
) -> Callable[[int], RoundStages]:
    """Returns a function from a client id to its stages [S, ...] in the next round."""
    exp = next.run.exp

    @partial(jax.jit, static_argnums=0)
    def simulate(index: int, row: Array, models: Model, shards) -> RoundStages:
        cohort = exp.cohorts[index]

        def in_shadow(s: Array, model: Model, shards) -> RoundStages:
            states = model.clients[index], shards[index]
            client, shard = jax.tree.map(lambda a: a[row], states)
            client = cohort.kept_state.restore(exp.method, cohort.net, client)
            down = federation.broadcast(exp.method, model.server, exp.formats).message
            key = jax.random.fold_in(next.key, s)
            task = LocalTask(
                exp.method, cohort.net, next.local, key, down, next.examples
            )
            return next_upload.simulate_client(task, down, client, shard)

        return jax.vmap(in_shadow)(jnp.arange(len(shadows.inside[0])), models, shards)

    def of_client(id: int) -> RoundStages:
        index, cohort = next_upload.cohort_and_index(next.run, id)
        row = cohort.ids.index(id)
        return jax.device_get(simulate(index, row, shadows.models, shadows.shards))

    return of_client


def pool_case(case: AttackCase) -> AttackCase:
    """Returns the case with the pool of the client as members and outsiders."""
    partition, id = case.exp.partition, case.captured.id
    ids = partition.train[id], partition.test[id]
    members, outsiders = (examples(case.exp, rows) for rows in ids)
    known = case.known._replace(members=members, outsiders=outsiders, ids=ids)
    return case._replace(known=known)


def statistics(case: AttackCase) -> dict[str, np.ndarray]:
    """Returns a statistic of every pool example [P] by source of the upload."""
    return {
        source: STATISTICS[source](
            np.minimum(np.concatenate(pair).astype(np.float64), -TINY)
        )
        for source, pair in membership.by_source(case).items()
    }


def _compare(case: AttackCase, stages: RoundStages, inside_SP: np.ndarray):
    """Yields the results of both tests for every source."""
    shadow_statistics = []
    for s in range(len(inside_SP)):
        shadow = jax.tree.map(lambda a, s=s: a[s], stages)
        captured = case.captured._replace(stages=shadow)
        body = attack_cases.attacker_network(captured, "own")
        seed = case.seed + 1 + s  # noise of its own
        messages = next_upload.on_the_wire(captured, case.form, case.noise, seed)
        shadow_statistics.append(
            statistics(case._replace(captured=captured, messages=messages, body=body))
        )
    members = len(case.known.members[1])
    for source, score_P in statistics(case).items():
        shadow_SP = np.stack([by_source[source] for by_source in shadow_statistics])
        ratio_P = log_likelihood_ratio(score_P, shadow_SP, inside_SP)
        for test, result in (("threshold", score_P), ("LiRA", ratio_P)):
            pair = result[:members], result[members:]
            row = {"source": source, "test": test, "AUC": scores.auc(*pair)}
            yield case, attack_cases.AttackResult([row], scores=pair)


def log_likelihood_ratio(
    score_P: np.ndarray, shadow_SP: np.ndarray, inside_SP: np.ndarray
) -> np.ndarray:
    """Returns the log of the ratio of densities with and without each example [P].

    Args:
      shadow_SP: Scores of the examples in shadow federations.
      inside_SP: Whether the shadow federation has the example; both cases occur.
    """
    lowest = shadow_SP[np.isfinite(shadow_SP)].min()  # for classes without prototype
    score_P, shadow_SP = np.maximum(score_P, lowest), np.maximum(shadow_SP, lowest)

    def log_density(inside_SP):
        mean_P = np.mean(shadow_SP, 0, where=inside_SP)
        variance = np.mean((shadow_SP - mean_P) ** 2, where=inside_SP) + TINY
        return -((score_P - mean_P) ** 2) / (2 * variance) - np.log(variance) / 2

    return log_density(inside_SP) - log_density(~inside_SP)
