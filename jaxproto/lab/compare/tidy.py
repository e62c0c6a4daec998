"""Tidy CSV of a comparison: one row per run, rule, average and statistic."""

from collections.abc import Iterator

from jaxproto.lab.compare import measures
from jaxproto.lab.compare.columns import TableRequest
from jaxproto.lab.compare.measures import AVERAGES, STATISTICS
from jaxproto.lab.compare.run_groups import SeedGroup
from jaxproto.summary import table_formats
from jaxproto.summary.table_formats import TableView, Value

HEAD = (
    "method",  # as in configurations
    "label",  # as in the table
    "dataset",
    "rounds",
    "seed",
    "rule",
    "metric",
    "average",
    "statistic",
    "value",  # as in the records: a share of 0 to 1, not in %
    "workdir",
)


def to_csv(request: TableRequest) -> str:
    """Returns the CSV (RFC 4180) of all averages and statistics."""
    lines = [line for g in request.groups for line in _lines(g, request)]
    return table_formats.render(TableView("", HEAD, tuple(lines)), "csv")


def _lines(group: SeedGroup, request: TableRequest) -> Iterator[tuple[Value, ...]]:
    measure, metric = request.measures[0], request.measures[0].metric
    for run in sorted(group.finished, key=lambda run: run.config["seed"]):
        length, seed = run.config["rounds"], run.config["seed"]
        row = (group.method, group.label, group.dataset, length, seed)
        known = measures.rules(run, metric)
        for rule in (rule for rule in request.rules if rule in known):
            for average in AVERAGES:
                digest = measures.summarize_history(
                    run, rule, measure._replace(average=average)
                )
                for name, statistic in STATISTICS.items():
                    value = statistic(digest) if digest else None
                    yield (*row, rule, metric, average, name, value, str(run.path))
