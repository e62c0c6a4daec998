"""Work directories as finished runs leave them, written without training."""

import json
from pathlib import Path

from jaxproto import config
from jaxproto.lab import compare
from support.fields import changed

AS_PRINTED = {"data__partition": "pfllib", "model__feat_dim": 500}  # in most papers


def write(path, made, summary=None, history=()):
    path = Path(path)
    path.mkdir(parents=True)
    (path / "config.json").write_text(made.to_json())
    if summary:
        (path / "summary.json").write_text(json.dumps(summary))
    if lines := [json.dumps(row) + "\n" for row in history]:
        (path / "metrics.jsonl").write_text("".join(lines))
    return path


def folder(
    path,
    method="fedproto",
    seed=0,
    accuracy=0.5,
    status="finished",
    rules=("head",),
    more=(),
    history=(),
    **fields,
):
    """Writes a work directory: `more` in its summary, `history` of `record`s."""
    made = changed(config.experiment(method, "cifar10"), seed=seed, **fields)
    acc = {"final": accuracy, "best": accuracy + 0.1, "mean_last": accuracy + 0.05}
    acc["last_n"] = 10
    summary = {
        "status": status,
        "rounds": made.rounds,
        "rules": {r: {"pooled": acc, "client_mean": acc} for r in rules},
        "bytes_per_round": {"up": 1_500_000.0, "down": 500.0},
        "scalars_per_round": {"nominal": 151_000},
        "seconds_per_round": 2.0,
        **dict(more),
    }
    return write(path, made, status and summary, history)


def record(at, accuracy, **metrics):
    """Returns the record of an evaluation in round `at`; 1 MB is sent in a round.

    The pair of a metric is the pooled number and the mean over clients.
    """
    kinds = {"pooled": accuracy, "client_mean": accuracy - 0.05}
    pairs = {k: {"pooled": v, "mean": mean} for k, (v, mean) in metrics.items()}
    return {
        "round": at,
        "rules": {"head": kinds},
        "bytes_total": {"up": 400_000 * at, "down": 600_000 * at},
        **({"metrics": {"head": pairs}} if pairs else {}),
    }


def made(*paths, **how):
    """Returns the table of runs, by default of pooled accuracies."""
    how = {"averages": ["pooled"], **how}
    return compare.table(compare.group_by_seed(map(compare.load, paths)), **how)


def cells_of(table, method="FedProto"):
    (row,) = (row for row in table.rows if row[0] == method)
    return dict(zip(table.head, row, strict=True))
