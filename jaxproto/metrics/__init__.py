"""Metrics by name: sums over examples in the compiled evaluation, values on the host.

`METRICS` has them all; `metric` is the decorator that puts one of one's own there.
"""

from jaxproto.metrics.classification import correct
from jaxproto.metrics.metric import Metric, by_client, pooled, values
from jaxproto.metrics.registry import ACCURACY, METRICS, further, metric, named

__all__ = [
    "ACCURACY",
    "METRICS",
    "Metric",
    "by_client",
    "correct",
    "further",
    "metric",
    "named",
    "pooled",
    "values",
]
