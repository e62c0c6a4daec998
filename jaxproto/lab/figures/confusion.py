"""Confusion matrices from the last checkpoints of runs."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from jaxproto.errors import UserError
from jaxproto.lab import plots
from jaxproto.lab.figures import arguments, selected_runs
from jaxproto.lab.saved_runs.restore import RestoredRun
from jaxproto.lab.saved_runs.saved_client import (
    best_class,
    compile_client,
    map_in_batches,
)
from jaxproto.round import federation


def confusion(args):
    """Draws confusion matrices over the test examples of all clients."""
    shown, missing = {}, 0
    for name, pick in selected_runs.selected_runs(args).items():
        matrices = of_clients(pick.run, pick.clients)
        rule, *_ = arguments.rules(args.rule, [*matrices])
        shown[f"{name}, rule {rule}"], without = matrices[rule]
        missing += without
        classes = pick.classes
    note = f"{missing} examples without a prediction are left out" if missing else ""
    plots.confusion_matrices(args.out, shown, classes, note)


Counted = tuple[np.ndarray, int]  # true by predicted class [C, C]; without any


def of_clients(run: RestoredRun, clients: Sequence[int]) -> dict[str, Counted]:
    """Returns the counts of test examples of clients, by rule.

    Raises:
      UserError: the clients have no test examples.
    """
    exp, total = run.exp, dict[str, Counted]()
    method, dataset, num_C = exp.method, exp.dataset, exp.spec.num_classes
    down = federation.broadcast(method, run.state.server, exp.formats).message
    for cohort, states in zip(exp.cohorts, run.state.clients, strict=True):
        scores = compile_client(method, cohort.net, cohort.name, dataset).scores
        for i in (i for i in clients if i in cohort.ids):
            if not len(rows := exp.partition.test[i]):
                continue
            k = cohort.ids.index(i)
            kept = jax.tree.map(lambda a, k=k: a[k], states)
            client = cohort.kept_state.restore(method, cohort.net, kept)
            by_rule = map_in_batches(partial(scores, client, down), dataset.x[rows])
            for rule in (k for k in by_rule if k in (cohort.scoring.rules or by_rule)):
                count_CC, without = total.get(rule, (np.zeros((num_C, num_C), int), 0))
                pred_M = best_class(by_rule[rule])
                known_M = pred_M >= 0
                np.add.at(count_CC, (dataset.y[rows][known_M], pred_M[known_M]), 1)
                total[rule] = count_CC, without + int((~known_M).sum())
    if not total:
        raise UserError(f"{run.path}: these clients have no test examples.")
    return total
