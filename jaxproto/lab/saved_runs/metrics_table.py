"""Data frames of the records of a run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from flax.traverse_util import flatten_dict


def metrics_table(records: Sequence[Mapping]) -> pd.DataFrame:
    """Returns a data frame with one row for each evaluated round and rule.

    The columns are `round` and `rule`; then values of the rule (`pooled`,
    `client_mean`, `client_std`, `client_min`, `client_max` of the accuracy; for another
    metric with its name in front); then values of the round, equal in all its rows
    (`loss` of training, `participants`, `bytes_up`, `bytes_total_up`, `seconds`, ...).
    Missing values are nan. Lists in a record, such as the bytes of every client, are
    left out.

    Args:
      records: Records of `metrics.jsonl`.
    """
    rows = [row for record in records for row in _rows(record)]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["round", "rule"])


def _rows(record: Mapping) -> Iterator[dict[str, Any]]:
    of_round = {k: v for k, v in record.items() if k not in ("round", "rules")}
    metrics = of_round.pop("metrics", {})
    for rule, accuracy in record.get("rules", {}).items():
        yield {
            "round": record["round"],
            "rule": rule,
            **_numbers(accuracy),
            **_numbers(metrics.get(rule, {})),
            **_numbers(of_round),
        }


def _numbers(nested: Mapping) -> dict[str, Any]:
    """Returns the numbers of nested dictionaries, names joined by an underscore."""
    flat = flatten_dict(nested, sep="_")
    numbers = {k: math.nan if v is None else v for k, v in flat.items()}
    return {k: v for k, v in numbers.items() if isinstance(v, int | float)}
