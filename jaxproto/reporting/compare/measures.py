"""What a table shows of a run: a metric by a rule, a statistic of its rounds."""

import statistics as stats
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jaxproto.errors import UserError
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.storage import records as metrics
from jaxproto.storage.run_folder import RunFolder

ACCURACY = "accuracy"  # the metric that summaries digest
SMALLER_IS_BETTER = ("loss", "ece")  # of which the smallest is the best
SHARES = (ACCURACY, "balanced_accuracy", "macro_f1", "auc", "ece")  # shown in %
STATISTICS = {  # option -> of an entry of the summary's rules
    "best": lambda digest: digest["best"],
    "final": lambda digest: digest["final"],
    "last10": lambda digest: metrics.mean_last(digest)[0],
}
AVERAGES = {"pooled": "pooled", "client": "client_mean"}  # option -> key of accuracies
OF_METRICS = {"pooled": "pooled", "client": "mean"}  # the same -> key of other metrics
SPREAD = " ± "


class Measure(NamedTuple):
    """A metric, how it is averaged over clients, and its deviation over seeds."""

    metric: str = ACCURACY
    average: str = "pooled"  # of `AVERAGES`
    ddof: int = 0  # of the standard deviation over seeds: its divisor is n - ddof
    least: bool = False  # the smallest value is the best

    @property
    def unit(self) -> str:
        """What follows titles, a space and %, or nothing."""
        return " %" if self.metric in SHARES else ""

    @property
    def scale(self) -> float:
        """What numbers of the records are multiplied with."""
        return 100.0 if self.metric in SHARES else 1.0

    @property
    def form(self) -> str:
        """Of its numbers."""
        return ".2f" if self.metric in SHARES else ".4f"

    @property
    def better(self) -> int:
        """1 where more is better, -1 where less is."""
        return -1 if self.least else 1

    @property
    def name(self) -> str:
        """In titles, after the rule: nothing for accuracy."""
        return "" if self.metric == ACCURACY else f" {self.metric}"


def mean_and_std(values: Sequence[float], form: str, ddof: int = 0) -> str:
    """Mean and, of several, standard deviation."""
    text = format(stats.fmean(values), form)
    if len(values) < 2:
        return text
    return text + SPREAD + format((stats.pstdev, stats.stdev)[ddof](values), form)


def values(
    group: SeedGroup, rule: str, statistic: str, measure: Measure
) -> dict[int, float]:
    """The number of each finished run that has one, by its seed."""
    found = {}
    for run in group.finished:
        kept = summarize_history(run, rule, measure)
        number = STATISTICS[statistic](kept) if kept else None
        if number is not None:
            found[run.config["seed"]] = measure.scale * number
    return found


def summarize_history(run: RunFolder, rule: str, measure: Measure) -> Mapping | None:
    """Best, final and mean of the last evaluations, as `records.rule_summary` has."""
    if measure.metric == ACCURACY:
        return run.results["rules"].get(rule, {}).get(AVERAGES[measure.average])
    if rule not in rules(run, measure.metric):
        return None
    kept = run.results.get("metrics", {}).get(rule, {}).get(measure.metric)
    if kept is not None:
        return kept[OF_METRICS[measure.average]]
    row = [number for number, _ in history(run, rule, measure)]
    known = [number for number in row if number is not None]
    last = [number for number in row[-metrics.LAST :] if number is not None]
    return {
        "best": max(known, key=lambda x: measure.better * x, default=None),
        "final": row[-1] if row else None,
        "mean_last": stats.fmean(last) if last else None,
        "last_n": len(last),
    }


def history(
    run: RunFolder, rule: str, measure: Measure
) -> list[tuple[float | None, Mapping]]:
    """The number of every evaluation, with its record; as in the records, not in %."""
    return [(_number(record, rule, measure), record) for record in run.evaluations()]


def _number(record: Mapping, rule: str, measure: Measure) -> float | None:
    if measure.metric == ACCURACY:
        return record["rules"].get(rule, {}).get(AVERAGES[measure.average])
    there = record.get("metrics", {}).get(rule, {}).get(measure.metric, {})
    return there.get(OF_METRICS[measure.average])


def rules(run: RunFolder, metric: str) -> set[str]:
    """Those that a finished run has the metric of."""
    if metric == ACCURACY:
        return {*run.results["rules"]}
    found = run.evaluations()[-1].get("metrics", {})
    return {rule for rule, named in found.items() if metric in named}


def is_smaller_better(runs: Iterable[RunFolder], metric: str) -> bool:
    """Whether the smallest value of a metric is its best, as summaries have it.

    A metric of one's own is not known here, but runs were summarised where it was.
    """
    for run in runs if metric not in (ACCURACY, *SMALLER_IS_BETTER) else ():
        for rule in run.results.get("metrics", {}):
            kept = summarize_history(run, rule, Measure(metric)) or {}
            row = [x for x, _ in history(run, rule, Measure(metric)) if x is not None]
            if row and kept.get("best") is not None and kept["best"] < max(row):
                return True
    return metric in SMALLER_IS_BETTER


def check_metric(runs: Iterable[RunFolder], metric: str):
    """Raises UserError unless one of the runs has the metric, one number each."""
    there, many = {ACCURACY}, set()
    for run in runs if metric != ACCURACY else ():
        for named in run.evaluations()[-1].get("metrics", {}).values():
            there |= {*named}
            many |= {k for k, v in named.items() if not _single(v)}
    if metric not in there:
        raise UserError(
            f"no run has metric {metric!r} in its records; there are: "
            f"{', '.join(sorted(there))}. Runs have those of --config.eval.metrics."
        )
    if metric in many:
        raise UserError(
            f"metric {metric!r} is not one number, but one per class: --metric takes "
            f"one of: {', '.join(sorted(there - many))}."
        )


def runs_without(runs: Iterable[RunFolder], metric: str) -> list[str]:
    """A sentence that names the runs that have not measured a metric, if any."""
    without = [str(run.path) for run in runs if not rules(run, metric)]
    return [f"Without {metric}: {', '.join(without)}."] if without else []


def _single(kinds) -> bool:
    numbers = kinds.values() if isinstance(kinds, Mapping) else [kinds]
    return all(v is None or isinstance(v, int | float) for v in numbers)
