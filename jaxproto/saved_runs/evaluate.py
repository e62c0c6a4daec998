"""Evaluations of a run's last checkpoint, by the programs of its own evaluations."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.errors import pick
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import tested_ids, tests
from jaxproto.federation import Model
from jaxproto.saved_runs.restore import Opened, check_clients, runnable
from jaxproto.saved_runs.saved_client import PARTS
from jaxproto.summary import metric_record, run_summary
from jaxproto.training import evaluation
from jaxproto.training.rounds import Work
from jaxproto.types import Examples


class Found(NamedTuple):
    """Correct predictions of clients, cohort after cohort."""

    ids: np.ndarray  # [K]
    correct: dict[str, np.ndarray]  # {rule: [K]}
    size: np.ndarray  # [K] examples

    def accuracy(
        self, rules: Sequence[str] | None, clients: Sequence[int] | None
    ) -> dict[str, dict[str, float]]:
        """Accuracy by rule, as in a record of `metrics.jsonl`."""
        names = list(self.correct) if rules is None else rules
        chosen = slice(None) if clients is None else np.isin(self.ids, clients)
        return {
            rule: run_summary.accuracy(
                self.correct[pick("rule", rule, self.correct)][chosen],
                self.size[chosen],
            )
            for rule in names
        }


def sampled(exp: Experiment) -> set[int]:
    """The clients that evaluations of the run ask."""
    return {i for cohort in exp.cohorts for i in tested_ids(cohort)}


def evaluate(run: Opened, examples: Examples, part: str, everyone: bool) -> Found:
    """What the clients get right of a part of their data.

    Args:
      examples: of all clients.
      part: train or test.
      everyone: all clients, and not those alone that evaluations of the run ask.
    """
    check_clients(run)
    exp = of_part(run.exp, pick("part", part, PARTS), everyone)
    compiled = runnable(exp)._replace(diagnostics=lambda server: {})
    store = run.store.of_tests(exp, compiled)
    work = Work(exp, examples, compiled, run.config.seed, store)
    told = evaluation.outcome(work, Model(run.state.server, run.state.clients))
    sums, size_K = evaluation.by_client(exp, told.sums)
    ids = [i for cohort in exp.cohorts for i in tested_ids(cohort)]
    return Found(np.array(ids), metric_record.accuracies(sums), size_K)


def of_part(exp: Experiment, part: str, everyone: bool) -> Experiment:
    """The experiment with this part of the data as what is tested on."""
    rows, cohorts = getattr(exp.partition, part), exp.cohorts
    if everyone:
        cohorts = tuple(dataclasses.replace(c, tested=()) for c in cohorts)
    return exp._replace(
        cohorts=cohorts,
        partition=exp.partition._replace(test=rows),
        test=tuple(tests(c, rows, exp.metrics, exp.store) for c in cohorts),
    )
