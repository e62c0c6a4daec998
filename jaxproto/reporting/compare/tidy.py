"""Every number of a comparison by seed: one row per run, rule and statistic."""

from collections.abc import Sequence

from jaxproto.reporting.compare import measures
from jaxproto.reporting.compare.measures import AVERAGES, STATISTICS, Measure
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.summary import table_formats
from jaxproto.summary.table_formats import TableView, Value

HEAD = (
    "method",  # as in configurations
    "label",  # as in the table
    "dataset",
    "seed",
    "rule",
    "metric",
    "average",
    "statistic",
    "value",  # as in the records: a share of 0 to 1, not in %
    "workdir",
)


def to_csv(
    rows: Sequence[tuple[str, SeedGroup]], rules: Sequence[str], measure: Measure
) -> str:
    """A CSV (RFC 4180) of all averages and statistics.

    Args:
      rows: labels and groups.
      rules: only these.
      measure: for its metric.
    """
    made = [row for label, g in rows for row in _rows(label, g, rules, measure)]
    return table_formats.render(TableView("", HEAD, tuple(made)), "csv")


def _rows(label: str, group: SeedGroup, rules: Sequence[str], measure: Measure):
    for run in sorted(group.finished, key=lambda run: run.config["seed"]):
        there = measures.rules(run, measure.metric)
        for rule in (rule for rule in rules if rule in there):
            for average in AVERAGES:
                kept = measures.summarize_history(
                    run, rule, measure._replace(average=average)
                )
                for name, of in STATISTICS.items():
                    value: Value = of(kept) if kept else None
                    told = (rule, measure.metric, average, name, value, str(run.path))
                    seed = run.config["seed"]
                    yield (group.method, label, group.dataset, seed, *told)
