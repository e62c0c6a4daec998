"""Metrics of runs by rule, average over clients and statistic over rounds."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jaxproto.errors import UserError
from jaxproto.lab.compare.run_groups import SeedGroup
from jaxproto.metrics import ACCURACY, METRICS, is_least
from jaxproto.storage import records
from jaxproto.storage.run_folder import RunFolder

SHARES = (ACCURACY, "balanced_accuracy", "macro_f1", "auc", "ece")  # shown in %
STATISTICS = {  # option -> its number in a digest of a summary
    "best": lambda digest: digest["best"],
    "final": lambda digest: digest["final"],
    "last10": lambda digest: records.mean_last(digest)[0],
    "client_best": lambda digest: digest.get("client_best"),
}
AVERAGES = {"pooled": "pooled", "client": "client_mean"}  # option -> key of accuracies
OF_METRICS = {"pooled": "pooled", "client": "mean"}  # option -> key of other metrics
SPREAD = " ± "


class Measure(NamedTuple):
    """A metric, its average over clients and its deviation over seeds."""

    metric: str = ACCURACY
    average: str = "pooled"  # key of `AVERAGES`
    ddof: int = 0  # of the standard deviation over seeds: its divisor is n - ddof
    least: bool = False  # the smallest value is the best
    several: bool = False  # titles name the average, as there are others

    @property
    def unit(self) -> str:
        """The suffix of titles: " %" of a share."""
        return " %" if self.metric in SHARES else ""

    @property
    def scale(self) -> float:
        """The factor from records to the table."""
        return 100.0 if self.metric in SHARES else 1.0

    @property
    def form(self) -> str:
        """The format of the numbers."""
        return ".2f" if self.metric in SHARES else ".4f"

    @property
    def better(self) -> int:
        """1 if larger is better, -1 if smaller is."""
        return -1 if self.least else 1

    @property
    def word(self) -> str:
        """The average as titles have it: " mean"; "" where it is the only one."""
        return f" {OF_METRICS[self.average]}" * self.several

    @property
    def name(self) -> str:
        """The metric as titles have it after the rule; "" for accuracy."""
        return "" if self.metric == ACCURACY else f" {self.metric}"


def values(
    group: SeedGroup, rule: str, statistic: str, measure: Measure
) -> dict[int, float]:
    """Returns {seed: number in the unit of the table} of the finished runs with one."""
    by_seed = {}
    for run in group.finished:
        summary = summarize_history(run, rule, measure)
        number = STATISTICS[statistic](summary) if summary else None
        if number is not None:
            by_seed[run.config["seed"]] = measure.scale * number
    return by_seed


def summarize_history(run: RunFolder, rule: str, measure: Measure) -> Mapping | None:
    """Returns the digest of a metric, as of `records.rule_summary`; None without it."""
    if measure.metric == ACCURACY:
        return run.results["rules"].get(rule, {}).get(AVERAGES[measure.average])
    if rule not in rules(run, measure.metric):
        return None
    summary = run.results.get("metrics", {}).get(rule, {}).get(measure.metric)
    if summary is not None:
        return summary[OF_METRICS[measure.average]]
    rows = [(record["round"], x) for x, record in history(run, rule, measure)]
    key = AVERAGES[measure.average]
    validation = records.validation_accuracies(run.evaluations(), rule, key)
    return records.summarize_series(rows, measure.least, validation)


def history(
    run: RunFolder, rule: str, measure: Measure
) -> list[tuple[float | None, Mapping]]:
    """Returns the number, in the unit of records, and the record of each evaluation."""
    return [(_number(record, rule, measure), record) for record in run.evaluations()]


def _number(record: Mapping, rule: str, measure: Measure) -> float | None:
    if measure.metric == ACCURACY:
        return record["rules"].get(rule, {}).get(AVERAGES[measure.average])
    averages = record.get("metrics", {}).get(rule, {}).get(measure.metric, {})
    return averages.get(OF_METRICS[measure.average])


def rules(run: RunFolder, metric: str) -> set[str]:
    """Returns the rules for which a finished run has the metric."""
    if metric == ACCURACY:
        return {*run.results["rules"]}
    by_rule = run.evaluations()[-1].get("metrics", {})
    return {rule for rule, metrics in by_rule.items() if metric in metrics}


def is_smaller_better(runs: Iterable[RunFolder], metric: str) -> bool:
    """Returns whether smaller is better.

    Best values tell it of a metric whose file is not imported, unless validation
    accuracies chose them.

    Raises:
      UserError: neither the metrics here nor the best values tell it.
    """
    for run in runs if metric not in METRICS else ():
        for rule, digests in run.results.get("metrics", {}).items():
            digest = digests.get(metric, {}).get("pooled", {})
            numbers = [x for x, _ in history(run, rule, Measure(metric))]
            known = {x for x in numbers if x is not None}
            by_value = "best" in digest and "best_validation" not in digest
            if by_value and len(known) > 1:
                return digest["best"] < max(known)
    least = is_least(metric, METRICS)
    if least is None:
        raise UserError(
            f"these runs do not tell whether a larger or a smaller {metric} is better: "
            "name the file that defines it with --import=FILE."
        )
    return least


def check_metric(runs: Iterable[RunFolder], metric: str):
    """Raises UserError unless a run has the metric, as a single number."""
    known, per_class = {ACCURACY}, set[str]()
    for run in runs if metric != ACCURACY else ():
        for metrics in run.evaluations()[-1].get("metrics", {}).values():
            known |= {*metrics}
            for name, averages in metrics.items():
                if any(isinstance(v, dict | list) for v in averages.values()):
                    per_class.add(name)
    if metric not in known:
        raise UserError(
            f"no run has metric {metric!r} in its records; there are: "
            f"{', '.join(sorted(known))}. Runs have those of --config.eval.metrics."
        )
    if metric in per_class:
        raise UserError(
            f"metric {metric!r} is not one number, but one per class: --metric takes "
            f"one of: {', '.join(sorted(known - per_class))}."
        )


def best_chosen_on(runs: Iterable[RunFolder]) -> str:
    """Returns the data, as `records.chosen_on`, of the best rounds of finished runs."""
    rules = (rule for run in runs for rule in run.results["rules"].values())
    return records.chosen_on(digests["pooled"] for digests in rules)


def runs_without(runs: Iterable[RunFolder], metric: str) -> list[str]:
    """Returns a sentence that names the runs without a metric, if there are any."""
    without = [str(run.path) for run in runs if not rules(run, metric)]
    return [f"Without {metric}: {', '.join(without)}."] if without else []
