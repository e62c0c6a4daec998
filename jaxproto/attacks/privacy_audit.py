"""Empirical lower bounds on the epsilon of one round of a client.

The round is computed with many keys on two neighbouring data sets. An adversary
distinguishes the data sets by a threshold on the release, projected on the difference
of their noiseless releases. One half of the keys chooses the threshold. The other half
bounds its error rates by Clopper and Pearson's intervals. A bound above the claimed
epsilon refutes the guarantee; one below it proves nothing.

Jagielski, Ullman, Oprea: Auditing Differentially Private Machine Learning, NeurIPS
2020.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats

from jaxproto.attacks.leakage import next_upload
from jaxproto.attacks.leakage.next_upload import NextRound
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array
from jaxproto.errors import UserError
from jaxproto.features.privacy import guarantee as privacy
from jaxproto.round.client import LocalTask
from jaxproto.summary.table_formats import TableView
from jaxproto.wrappers.privacy import CLIENT, EXAMPLE, OFF

BATCH = 32  # keys at a time
THRESHOLDS = 1000

Release = Callable[[Array, Array, float], Array]  # key, labels [N], noise -> [S]


class AuditRequest(NamedTuple):
    """Options of an audit."""

    trials: int = 20_000  # keys per data set
    confidence: float = 0.95
    client: int = 0
    seed: int = 0
    data_dir: str = ""


class Audit(NamedTuple):
    """Claimed and audited epsilon of one round."""

    method: str
    unit: str
    noise: float
    clip: float
    delta: float
    claimed: float
    audited: float


def audit(workdir: str | Path, request: AuditRequest) -> Audit:
    """Audits the next round of a client after the last checkpoint of a run.

    Raises:
      UserError: the folder has no run under privacy, or the run has no such client.
    """
    next = next_upload.next_round(workdir, request.data_dir)
    config = next.run.config
    if config.privacy.unit == OFF:
        raise UserError(f"{workdir} has privacy.unit=off: there is no claim to audit.")
    release, noise = client_release(next, request.client), visible_noise(config)

    @jax.jit
    def releases(keys, y_N, noise):
        return jax.vmap(lambda key: release(key, y_N, noise))(keys)

    def noiseless(y_N):
        keys = jax.random.split(make_key(request.seed), BATCH)
        return releases(keys, y_N, 0.0).mean(0)

    def projections(key, y_N, direction):
        keys = jax.random.split(key, (-(-request.trials // BATCH), BATCH))
        parts = [releases(batch, y_N, noise) @ direction for batch in keys]
        return np.concatenate(parts)[: request.trials]

    first = next.examples.y
    others = neighbours(next, request.client)
    first_release = noiseless(first)
    differences = [noiseless(y) - first_release for y in others]
    farthest = int(np.argmax([np.linalg.norm(a) for a in differences]))
    keys = jax.random.split(make_key(request.seed + 1))
    first_T, second_T = (
        projections(key, y, differences[farthest])
        for key, y in zip(keys, (first, others[farthest]), strict=True)
    )
    settings = config.privacy
    return Audit(
        method=config.method.name,
        unit=settings.unit,
        noise=settings.noise,
        clip=settings.clip,
        delta=settings.delta,
        claimed=privacy.epsilon_without_sampling(config, 1),
        audited=epsilon_lower_bound(
            first_T, second_T, settings.delta, request.confidence
        ),
    )


def visible_noise(config) -> float:
    """Returns the `privacy.noise` with which one upload has the noise of the sum.

    With unit `client`, the adversary sees the sum of the uploads and knows one share.
    """
    noise = privacy.noise_multiplier(config)
    if config.privacy.unit == CLIENT:
        noise *= privacy.clients_per_round(config) ** 0.5
    return noise


def client_release(next: NextRound, id: int) -> Release:
    """Returns a function from key, labels and noise to the flat upload of a client."""
    exp = next.run.exp
    cohort, client, shard = next_upload.client_before(next, id)

    def release(key, y_N, noise):
        parts = exp.parts({**exp.floats, "privacy.noise": noise})
        local = dataclasses.replace(parts.local, factor=next.local.factor)
        examples = next.examples.replace(y=y_N)
        task = LocalTask(parts.method, cohort.net, local, key, next.down, examples)
        stages = next_upload.simulate_client(task, next.first, client, shard)
        return ravel_pytree(stages.up)[0]

    return release


def neighbours(next: NextRound, id: int) -> list[Array]:
    """Returns the labels [N] of neighbouring data sets.

    The labels of the replaced unit, an example or all of a client, are shifted.
    """
    rows, y_N = next.run.exp.partition.train[id], next.examples.y
    if next.run.config.privacy.unit == EXAMPLE:
        rows = rows[:1]
    classes = next.run.exp.spec.num_classes
    others = [(y_N[rows] + shift) % classes for shift in range(1, classes)]
    return [y_N.at[rows].set(y) for y in others]


def epsilon_lower_bound(
    first: np.ndarray, second: np.ndarray, delta: float, confidence: float
) -> float:
    """Returns a lower bound on epsilon that holds with a confidence.

    Args:
      first: Projected releases of one data set [T].
      second: Projected releases of its neighbour [T], which tend to be larger.
      confidence: Probability that both error rates are within their bounds.
    """
    half = len(first) // 2
    halves = (first[:half], second[:half]), (first[half:], second[half:])
    quantiles = np.linspace(0, 1, THRESHOLDS)
    thresholds = np.quantile(np.concatenate(halves[0]), quantiles)
    chosen = thresholds[_bounds(*halves[0], thresholds, delta, confidence).argmax()]
    return float(max(_bounds(*halves[1], chosen[None], delta, confidence)[0], 0.0))


def _bounds(first, second, thresholds, delta, confidence) -> np.ndarray:
    """Returns the larger bound on epsilon of both sides of every threshold."""
    miss = (1 - confidence) / 4  # two sides, two error rates each
    above = [(t[:, None] > thresholds).sum(0) for t in (second, first)]
    below = [len(first) - above[1], len(first) - above[0]]
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [
            np.log(np.maximum(_low(likely, len(first), miss) - delta, 0))
            - np.log(_high(rare, len(first), miss))
            for likely, rare in (above, below)
        ]
    return np.maximum(*sides)


def _low(hits, trials, miss):
    """Returns Clopper and Pearson's lower bound on a probability."""
    return np.where(hits == 0, 0.0, stats.beta.ppf(miss, hits, trials - hits + 1))


def _high(hits, trials, miss):
    """Returns Clopper and Pearson's upper bound on a probability."""
    bound = stats.beta.ppf(1 - miss, hits + 1, trials - hits)
    return np.where(hits == trials, 1.0, bound)


def view(audits: Sequence[Audit], request: AuditRequest) -> TableView:
    """Returns a table of audits."""
    rows = tuple((*a[:-2], round(a.claimed, 2), round(a.audited, 2)) for a in audits)
    head = (*Audit._fields[:-2], "epsilon of a round", "audited: at least")
    notes = (
        f"{request.trials:,} keys for each of two neighbouring data sets of client "
        f"{request.client}, confidence {request.confidence:g}. A bound above epsilon "
        "refutes the guarantee; one below it proves nothing.",
    )
    return TableView("Claimed and audited epsilon", head, rows, notes)
