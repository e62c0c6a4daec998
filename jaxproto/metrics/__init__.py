"""Metrics by name: sums over examples in the compiled evaluation, values on the host.

`METRICS` has all of them; the decorator `metric` registers another one.
"""

from jaxproto.metrics.classification import correct
from jaxproto.metrics.metric import Metric, by_client, is_least, pooled, values
from jaxproto.metrics.registry import (
    ACCURACY,
    METRICS,
    besides_accuracy,
    metric,
    metrics_by_name,
)
