"""Check of a configuration with its data, method and networks, before compilation."""

import itertools
import os
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import config as configuration
from jaxproto.core import batches
from jaxproto.core.method import Method
from jaxproto.core.types import Spec
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment import build, memory, statelessness
from jaxproto.experiment.build import Experiment
from jaxproto.metrics import Metric, besides_accuracy
from jaxproto.metrics.shape_check import check_metric
from jaxproto.round.cohort import (
    Cohort,
    broadcast_shapes,
    check_cohorts,
    score_shapes,
)


def check(config: ml_collections.ConfigDict | Mapping | str | os.PathLike):
    """Checks all that a run checks before it compiles; reads the data set.

    A run calls the same checks. Functions of your own method and networks are traced
    by shapes in the order of a round, so that an error names the function, the expected
    and the found shapes, and the line of your file.

    Args:
      config: Configuration, a dict of all its fields, or the name or file of one, such
        as "protonorm:digits".

    Raises:
      UserError: The run cannot work.
    """
    config = configuration.from_name(config)
    configuration.check(config)
    exp = build.experiment(config, jax.default_backend())
    check_experiment(exp, config.early_stopping.rule)


def check_experiment(exp: Experiment, rule: str = ""):
    """Raises UserError before training if method, networks and data do not fit.

    Args:
      rule: Prediction rule of early stopping; "" if it names none.
    """
    check_evaluated(exp)
    x = jax.eval_shape(batches.normalise_inputs, jnp.zeros_like(exp.dataset.x[:1]))
    check_cohorts(exp.method, exp.cohorts, exp.spec, x)
    check_metrics(exp.method, exp.cohorts, exp.spec, x, exp.metrics)
    memory.check_experiment_memory(exp)
    sizes = [len(rows) for rows in exp.partition.train]
    batch_size = exp.local.batch_size
    if not np.any(exp.local.steps_per_epoch(np.asarray(sizes), batch_size)):
        raise UserError(
            f"no client would train: local.batch_size is {batch_size}, but the largest "
            f"client has {max(sizes)} examples; make it at most that, or set "
            "local.short to wrap.",
            advice=[{"local.short": "wrap"}, {"local.batch_size": max(sizes)}],
        )
    check_early_stopping_rule(exp, rule)


def check_evaluated(exp: Experiment):
    """Raises UserError if no client has results that count."""
    if not len(exp.counted_ids):
        raise UserError(
            "all clients that are evaluated are hostile, and their results are left "
            "out; lower attack.share, shorten attack.clients or raise eval.clients."
        )
    held_out = [
        exp.partition.validation[i] for i in exp.counted_ids if exp.partition.validation
    ]
    if held_out and not any(map(len, held_out)):
        raise UserError(
            "no client that is evaluated has validation examples: a client gives "
            "floor(data.validation_share * its training examples); raise the share."
        )


def check_early_stopping_rule(exp: Experiment, rule: str):
    """Raises UserError if early stopping names a rule that is not evaluated."""
    if not rule:
        return
    cohort, method = exp.cohorts[0], exp.method
    shapes = statelessness.client_shapes(method, cohort.net, exp.local, exp.dataset)
    rules = cohort.scoring.rules or statelessness.rule_names(method, cohort.net, shapes)
    choose_from("early_stopping.rule", rule, rules)


def check_metrics(
    method: Method,
    cohorts: Sequence[Cohort],
    spec: Spec,
    x,
    metrics: tuple[Metric, ...],
):
    """Raises UserError if a metric does not take the scores of a prediction rule.

    Args:
      x: Shape of one batch of inputs, as a ShapeDtypeStruct.
    """
    more, columns = besides_accuracy(metrics), set[int]()
    if not more:
        return
    down = broadcast_shapes(method, cohorts[0].net)
    for cohort in cohorts:
        scores = score_shapes(method, cohort, spec, x, down)
        columns |= {array.shape[-1] for array in scores.values()}
    for metric, number in itertools.product(more, columns):
        check_metric(metric, number)
