"""The records of a run as a tidy table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxproto.saved_runs.column_table import Table

NOTHING = Table({"round": np.zeros(0, np.int64), "rule": np.zeros(0, np.str_)})


def metrics_table(records: Sequence[Mapping]) -> Table:
    """One row for each evaluated round and rule.

    Columns: `round`, `rule`; then what the record says of the rule (`pooled`,
    `client_mean`, `client_std`, `client_min`, `client_max` of the accuracy; of another
    metric its name before these); then what it says of the round, the same in all rows
    of the round (`loss` of training, `participants`, `bytes_up`, `bytes_total_up`,
    `seconds`, ...). What is a list in the record (bytes of every client, what was
    watched in every round) is not here.

    Args:
      records: of `metrics_table.jsonl`.
    """
    rows = [row for record in records for row in _rows(record)]
    return Table.of_rows(rows) if rows else NOTHING


def _rows(record: Mapping) -> Iterator[dict[str, Any]]:
    of_round = {k: v for k, v in record.items() if k not in ("round", "rules")}
    more = of_round.pop("metrics", {})
    for rule, accuracy in record.get("rules", {}).items():
        yield {
            "round": record["round"],
            "rule": rule,
            **_numbers(accuracy),
            **_numbers(more.get(rule, {})),
            **_numbers(of_round),
        }


def _numbers(found: Mapping, before: str = "") -> dict[str, Any]:
    """The numbers in nested dictionaries; names are joined by an underscore."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, Mapping):
            flat |= _numbers(value, f"{before}{name}_")
        elif value is None or isinstance(value, int | float):
            flat[f"{before}{name}"] = value
    return flat
