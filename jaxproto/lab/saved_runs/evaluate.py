"""Evaluations of the last checkpoint by the programs of the run."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.core import jax_settings
from jaxproto.core.method import every_client
from jaxproto.core.types import Examples
from jaxproto.data.partitions.partition import (
    Partition,
)
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import evaluation_tables
from jaxproto.lab.saved_runs.restore import RestoredRun, check_clients
from jaxproto.round.federation import Model
from jaxproto.summary import metric_record, run_summary
from jaxproto.training import programs, run_evaluation
from jaxproto.training.engine import LocalEngine


class EvaluationCounts(NamedTuple):
    """Correct predictions of K clients, cohort after cohort."""

    ids: np.ndarray  # [K]
    correct: dict[str, np.ndarray]  # {rule: [K]}
    size: np.ndarray  # [K] examples

    def accuracy(
        self, rules: Sequence[str] | None, clients: Sequence[int] | None
    ) -> dict[str, dict[str, float]]:
        """Returns the accuracy by rule, as in a record of `metrics.jsonl`."""
        names = list(self.correct) if rules is None else rules
        chosen = self.size > 0
        chosen &= True if clients is None else np.isin(self.ids, clients)
        if not chosen.any():
            raise UserError("none of these clients has examples of this part.")
        return {
            rule: run_summary.accuracy(
                self.correct[choose_from("rule", rule, self.correct)][chosen],
                self.size[chosen],
            )
            for rule in names
        }


def evaluate(
    run: RestoredRun, examples: Examples, part: str, everyone: bool
) -> EvaluationCounts:
    """Counts the correct predictions of clients on a part of their data.

    Args:
      examples: Examples of all clients.
      part: "train", "test" or "validation".
      everyone: Whether all clients are evaluated, not only `Experiment.counted_ids`.
    """
    jax_settings.check()
    check_clients(run)
    exp = evaluating_on(run.exp, choose_from("part", part, Partition._fields), everyone)
    compiled = programs.jit_programs(exp)
    store = run.store.of_tests(exp, compiled)
    engine = LocalEngine(exp, examples, compiled, run.config.seed, store)
    model = Model(run.state.server, run.state.clients)
    ((_, cohort_sums),) = engine.evaluate(run.round, model)
    sums, size_K, id_K = run_evaluation.by_client(exp, cohort_sums)
    return EvaluationCounts(id_K, metric_record.accuracies(sums), size_K)


def evaluating_on(exp: Experiment, part: str, everyone: bool) -> Experiment:
    """Returns the experiment with a part of the data as its only test data.

    Raises:
      UserError: The run has no such part.
    """
    rows, cohorts = getattr(exp.partition, part), exp.cohorts
    if not rows:
        raise UserError(f"the run has no {part} examples: data.{part}_share is 0.")
    if everyone:
        cohorts = tuple(dataclasses.replace(c, sample=None) for c in cohorts)
        method = dataclasses.replace(exp.method, scored=every_client)
        exp = exp._replace(method=method)
    partition = exp.partition._replace(test=rows, validation=())
    tables = evaluation_tables(cohorts, partition)
    return exp._replace(cohorts=cohorts, partition=partition, test=tables)
