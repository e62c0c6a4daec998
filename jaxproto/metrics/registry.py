"""Registry of metrics, and the decorator that adds to it."""

import dataclasses
from collections.abc import Callable

from jaxproto.core.registry import Registry, places
from jaxproto.errors import UserError, choose_from, shorten
from jaxproto.metrics import classification
from jaxproto.metrics.classification import ACCURACY
from jaxproto.metrics.metric import Metric, mean_of_sums

_BUILTIN: dict[str, Metric] = {
    ACCURACY: Metric(classification.accuracy, counts=True),
    "balanced_accuracy": Metric(
        classification.balanced_accuracy, classification.mean_recall, counts=True
    ),
    "macro_f1": Metric(classification.macro_f1, classification.mean_f1, counts=True),
    **places("metrics.auc", auc="AUC"),
    **places("metrics.calibration", loss="LOSS", ece="ECE"),
    "per_class": Metric(
        classification.per_class, classification.of_classes, counts=True
    ),
}
METRICS: Registry[Metric] = Registry("metric", _BUILTIN, group="jaxproto.metrics")


def metric(name: str, value: Callable = mean_of_sums, least: bool = False) -> Callable:
    """Registers a function `(scores_BC, y_B, mask_B) -> sums` as a metric.

    Args:
      name: Name in `eval.metrics`, records and columns.
      value: Function of the sums, as in `Metric`; by default sums are a total and a
        count.
      least: Whether the smallest value is the best.

    Returns:
      A decorator that returns the function unchanged.

    Raises:
      UserError: The name is no identifier, or that of a built-in metric.
    """
    if not name.isidentifier():
        raise UserError(
            f"a metric cannot be named {shorten(name)}: names are such as top_2."
        )

    def register(sums):
        METRICS[name] = Metric(sums, value, least)
        return sums

    return register


ELSEWHERE = {  # what other libraries call metrics -> name
    "acc": "accuracy",
    "auroc": "auc",
    "bacc": "balanced_accuracy",
    "f1": "macro_f1",
    "f1_score": "macro_f1",
    "recall": "per_class",
    "roc_auc": "auc",
}


def metrics_by_name(names: str) -> tuple[Metric, ...]:
    """Returns metrics by names joined by commas; accuracy is always the first."""
    requested = [name.strip() for name in names.split(",") if name.strip()]
    for name in requested:
        choose_from("metric", name, METRICS, ELSEWHERE)
    unique = dict.fromkeys([ACCURACY, *requested])
    return tuple(dataclasses.replace(METRICS[name], name=name) for name in unique)


def besides_accuracy(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Returns the metrics other than accuracy."""
    return tuple(m for m in metrics if m.name != ACCURACY)
