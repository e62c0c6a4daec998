"""Rounds and bytes until runs first evaluate at an accuracy."""

from collections.abc import Mapping, Sequence

from jaxproto import plots
from jaxproto.plots import curves
from jaxproto.reporting.compare import measures, targets
from jaxproto.reporting.compare.measures import Measure
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.reporting.figures import arguments


def rounds_to_target(args):
    """Rounds and bytes to reach an accuracy, a bar for each method."""
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
    told = arguments.seeds_note([*groups.values()])
    plots.rounds_to_target_bars(args.out, bars, "\n".join(filter(None, [title, told])))


def _rule(asked: str | None, there: Sequence[Mapping]) -> str:
    """The rule that was asked for, or the first that all runs have, if there is one."""
    found = list(dict.fromkeys(rule for rules in there for rule in rules))
    common = [rule for rule in found if all(rule in rules for rules in there)]
    return arguments.rules(asked or (common or found)[0], found)[0]


def _bar(name: str, group: SeedGroup, rule: str, measure: Measure, target: float):
    histories = [measures.history(run, rule, measure) for run in group.runs]
    have = [run for run in group.runs if rule in run.evaluations()[-1]["rules"]]
    found = [targets.first_reaching(run, rule, measure, target) for run in have]
    came = [record for record in found if record is not None]
    every = [x for history in histories for x, _ in history if x is not None]
    return plots.Bar(
        name,
        [record["round"] for record in came],
        [sum(record["bytes_total"].values()) for record in came],
        len(have),
        max((measure.scale * x for x in every), default=float("nan")),
    )
