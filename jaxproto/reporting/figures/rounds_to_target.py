"""Rounds and bytes until runs first evaluate at an accuracy."""

from collections.abc import Mapping, Sequence

from jaxproto import plots
from jaxproto.plots import curves
from jaxproto.reporting.compare import measures, targets
from jaxproto.reporting.compare.measures import Measure
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.reporting.figures import arguments


def rounds_to_target(args):
    """Draws rounds and bytes to reach an accuracy, a bar for each method."""
    measure = Measure(average=args.average)
    targets.check(args.target, measure)
    groups = arguments.group_seeds(args.workdirs)
    records = {
        name: [curves.evaluated(name, r.evaluations()) for r in group.runs]
        for name, group in groups.items()
    }
    rule = _rule(args.rule, [seeds[0][-1]["rules"] for seeds in records.values()])
    bars = [_bar(n, g, rule, measure, args.target) for n, g in groups.items()]
    title = f"until {args.target:g} % test accuracy, rule {rule}, {args.average}"
    note = arguments.seeds_note([*groups.values()])
    plots.rounds_to_target_bars(args.out, bars, "\n".join(filter(None, [title, note])))


def _rule(chosen: str | None, by_run: Sequence[Mapping]) -> str:
    """Returns the given rule, or the first that all runs have, else the first."""
    known = list(dict.fromkeys(rule for rules in by_run for rule in rules))
    common = [rule for rule in known if all(rule in rules for rules in by_run)]
    return arguments.rules(chosen or (common or known)[0], known)[0]


def _bar(name: str, group: SeedGroup, rule: str, measure: Measure, target: float):
    histories = [measures.history(run, rule, measure) for run in group.runs]
    runs = [run for run in group.runs if rule in run.evaluations()[-1]["rules"]]
    records = [targets.first_reaching(run, rule, measure, target) for run in runs]
    reached = [record for record in records if record is not None]
    numbers = [x for history in histories for x, _ in history if x is not None]
    return plots.Bar(
        name,
        [record["round"] for record in reached],
        [sum(record["bytes_total"].values()) for record in reached],
        len(runs),
        max((measure.scale * x for x in numbers), default=float("nan")),
    )
