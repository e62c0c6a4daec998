"""Run directories for tests of reports, written without training."""

import json
import re

import numpy as np

from jaxproto import config
from jaxproto.data import partition_stats
from jaxproto.data.partition_stats import Counts
from jaxproto.storage import records
from support import workdirs
from support.fields import changed

COUNTS = Counts(  # of three clients and two classes
    np.array([[30, 0], [5, 5], [0, 60]]), np.array([[10, 0], [2, 2], [0, 20]])
)
RULES = ("head", "global")


def run(path, method="fedproto", seed=0, best=0.8, rounds=4, status="finished", **more):
    """Writes a run whose accuracy grows to `best`; `status` "": without a summary.

    `more`: `rules`, `configuration`, `summary`, `per_client`, fields with __ for a dot.
    """
    rules, extra = more.pop("rules", RULES), more.pop("summary", {})
    made = more.pop("configuration", None) or config.experiment(method, "digits")
    per_client = more.pop("per_client", False)
    changed(made, seed=seed, rounds=rounds, **more)
    done = rounds if status == "finished" else max(1, rounds - 1)
    lines = [record(r, best * r / rounds, rules) for r in range(1, done + 1)]
    if per_client:
        size_K = COUNTS.test.sum(1)  # all correct by the first rule
        hits = {f"correct_{k}": (size_K // i).tolist() for i, k in enumerate(rules, 1)}
        each = {"id": [0, 1, 2], "test_examples": size_K.tolist(), **hits}
        lines[-1]["by_client"] = each
    path = workdirs.write(path, made, status and summary(status, lines) | extra, lines)
    partition_stats.write_csv(path / "partition.csv", COUNTS)
    return path


def record(r, accuracy, rules=RULES):
    values = {rule: accuracy - 0.1 * i for i, rule in enumerate(rules)}
    spread = {"client_std": 0.1, "client_min": 0.0, "client_max": 1.0}
    return {
        "round": r,
        "rules": {
            k: {"pooled": a, "client_mean": a / 2, **spread} for k, a in values.items()
        },
        "bytes_up": 1500,
        "bytes_down": 500,
        "bytes_total": {"up": 1500 * r, "down": 500 * r},
        "seconds": 0.5,
    }


def summary(status, lines):
    return {
        "status": status,
        "rounds": lines[-1]["round"],
        "rules": records.rule_summary(lines),
        "bytes_per_round": {"up": 1500.0, "down": 500.0},
        "scalars_per_round": {"nominal": 250},
        "seconds_per_round": 0.5,
        "compile_seconds": 3.0,
        "collapsed": {},
        "commonest_class": partition_stats.majority_share(COUNTS)._asdict(),
    }


def figures_of(html: str) -> dict[str, dict]:
    """Returns the figures of a page by id: {"data": traces, "layout": layout}."""
    found, read = {}, json.JSONDecoder().raw_decode
    for begin in re.finditer(r'Plotly\.newPlot\(\s*"([\w-]+)",\s*', html):
        data, end = read(html, begin.end())
        layout, _ = read(html[end:].lstrip(" ,\n"))
        found[begin[1]] = {"data": data, "layout": layout}
    return found


def traces(html: str, figure: str, **choices) -> list[dict]:
    """Returns the traces of a figure that are shown for some choices."""
    return [
        trace
        for trace in figures_of(html).get(figure, {"data": []})["data"]
        for when in trace["meta"]["when"]
        if choices.items() <= when.items()
    ]
