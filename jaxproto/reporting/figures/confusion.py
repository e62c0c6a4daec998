"""Confusion matrices from the last checkpoints of runs."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import batches, federation, plots, wire
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.cohorts import Cohort
from jaxproto.reporting.figures import selected_runs
from jaxproto.saved_runs.restore import RestoredRun
from jaxproto.summary import pictures
from jaxproto.types import Data

_BATCH = batches.EVAL_BATCH_SIZE


def confusion(args):
    """Draws confusion matrices over the test examples of all clients."""
    shown, missing = {}, 0
    for name, one in selected_runs.selected_runs(args).items():
        matrices = of_clients(one.run, one.clients, one.trained)
        rules = list(matrices)
        rule = rules[0] if args.rule is None else choose_from("rule", args.rule, rules)
        shown[f"{name}, rule {rule}"], without = matrices[rule]
        missing += without
        classes = one.classes
    note = f"{missing} examples without a prediction are left out" if missing else ""
    plots.confusion_matrices(args.out, shown, classes, note)


Counted = tuple[np.ndarray, int]  # [C, C] true by predicted; examples of no prediction


def of_clients(
    run: RestoredRun, clients: Sequence[int], trained: pictures.TrainedFederation
) -> dict[str, Counted]:
    """Returns test examples by true and predicted class, of every rule.

    Args:
      run: after its last checkpoint.
      clients: ids of those that are asked.
      trained: the same run with its examples.

    Raises:
      UserError: the clients have no test examples.
    """
    num_C, total = run.exp.spec.num_classes, dict[str, Counted]()
    down = federation.broadcast(run.exp.method, trained.server, run.exp.formats).message
    programs = {c.name: _program(run, c, down) for c in run.exp.cohorts}
    for cohort in run.exp.cohorts:
        for i in (i for i in clients if i in cohort.ids):
            _, client, data = pictures.one_client(trained, i)
            for rule, (true_M, said_M) in programs[cohort.name](client, data).items():
                count_CC, none = total.get(rule, (np.zeros((num_C, num_C), int), 0))
                known_M = said_M >= 0
                np.add.at(count_CC, (true_M[known_M], said_M[known_M]), 1)
                total[rule] = count_CC, none + int((~known_M).sum())
    if not total:
        raise UserError(f"{run.path}: these clients have no test examples.")
    return total


def _program(run: RestoredRun, cohort: Cohort, down):
    """Returns a map: client, data -> {rule: true classes, predictions, -1 for none}."""

    @jax.jit
    def predict(client, batch):
        own = wire.for_client(down, client.id)
        scores = run.exp.method.predict(cohort.net, client, batch.x, own)
        return {
            k: _best(s)
            for k, s in scores.items()
            if k in (cohort.scoring.rules or scores)
        }

    def each(client, data: Data):
        size = int(data.shard.size)
        stacked = jax.tree.map(lambda a: jnp.asarray(a)[None], client)
        client = jax.tree.map(
            lambda a: a[0],
            cohort.kept_state.restore(run.exp.method, cohort.net, stacked),
        )
        pairs: dict[str, list] = {}
        for first in range(0, size, _BATCH):
            at_B = np.arange(first, first + _BATCH)
            there_B = at_B < size
            at_B = np.minimum(at_B, size - 1)
            batch = batches.gather_examples(
                data, jnp.asarray(at_B), jnp.asarray(there_B, float)
            )
            for rule, said_B in predict(client, batch).items():
                pair = np.asarray(batch.y)[there_B], np.asarray(said_B)[there_B]
                pairs.setdefault(rule, []).append(pair)
        return {
            k: tuple(map(np.concatenate, zip(*v, strict=True)))
            for k, v in pairs.items()
        }

    return each


def _best(scores_BC):
    """Returns the best class, -1 where all scores are -inf or one is nan."""
    known_B = jnp.isfinite(jnp.max(scores_BC, -1))
    return jnp.where(known_B, jnp.argmax(scores_BC, -1), -1)
