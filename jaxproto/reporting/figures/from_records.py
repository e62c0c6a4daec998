"""Pictures of runs from their small files, without checkpoints.

All but the partition can also be drawn from the records in results/.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from jaxproto import masks, plots
from jaxproto.data import partition_stats
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.display_names import display_name
from jaxproto.plots import curves
from jaxproto.reporting.compare import measures, targets
from jaxproto.reporting.compare.measures import Measure
from jaxproto.reporting.compare.run_groups import (
    SeedGroup,
    fields_apart,
    settings_key,
    with_details,
)
from jaxproto.reporting.figures import arguments
from jaxproto.storage.run_folder import has_begun, on_disk
from jaxproto.summary import pictures

ITERATIONS = "alignment_iterations"  # name in `every_round` of records


def accuracy_against_bytes(args):
    """Draws accuracy against bytes sent; mean, least and largest over seeds."""
    runs = _evaluations(arguments.group_seeds(args.workdirs))
    plots.accuracy_against_bytes(args.out, runs, args.rule)


def accuracy_against_seconds(args):
    """Draws accuracy against simulated time; mean, least and largest over seeds."""
    runs = _evaluations(arguments.group_seeds(args.workdirs))
    plots.accuracy_against_seconds(args.out, runs, args.rule)


def _evaluations(groups: Mapping[str, SeedGroup]) -> dict[str, list[list[dict]]]:
    """Returns the records of every seed by the name of their runs."""
    return {k: [r.evaluations() for r in g.runs] for k, g in groups.items()}


def accuracy(args):
    """Draws accuracy over rounds; mean, least and largest over seeds.

    A run alone has its spread over clients.
    """
    groups = arguments.group_seeds(args.workdirs)
    runs = _evaluations(groups)
    last = {name: seeds[0][-1]["rules"] for name, seeds in runs.items()}
    rules = arguments.rules(args.rule, [k for known in last.values() for k in known])
    if len(args.workdirs) == 1 and args.rule is None:
        ((name, (records,)),) = runs.items()
        plots.accuracy_over_rounds(args.out, records, name)
        return
    shown = {f"rule {rule}": [] for rule in rules}
    for name, by_seed in runs.items():
        seeds = curves.shared_rounds(name, by_seed)
        rounds = [record["round"] for record in seeds[0]]
        for rule in (k for k in rules if k in last[name]):
            key = measures.AVERAGES[args.average]
            values_SN = [curves.accuracies(records, rule, key) for records in seeds]
            shown[f"rule {rule}"].append(plots.band(name, rounds, values_SN))
    note = arguments.seeds_note(groups.values())
    plots.bands(args.out, shown, "round", "test accuracy (%)", note=note)


def iterations(args):
    """Draws iterations of the alignment in every round (ProtoNorm Figure 3a)."""
    lines, groups = [], arguments.group_seeds(args.workdirs)
    for name, group in groups.items():
        series = [pictures.every_round(r.evaluations(), ITERATIONS) for r in group.runs]
        by_round = [dict(zip(*pair, strict=True)) for pair in series]
        if not (rounds := sorted(set.intersection(*map(set, by_round)))):
            raise UserError(
                f"{group.runs[0].path} has no {ITERATIONS} in its records: it has no "
                "alignment, or is of a version that did not log it. Leave it out."
            )
        values_SN = [[values[r] for r in rounds] for values in by_round]
        lines.append(plots.band(name, rounds, values_SN))
    note = arguments.seeds_note(groups.values())
    pictures.iterations(args.out, lines, note)


def accuracy_against_field(args):
    """Draws accuracy against a field of the configuration (TinyProto Figures 4, 5).

    The value of a run is that of the first of the fields that it has. Runs without any
    are a dashed line across. Runs that differ in other fields have lines of their own.
    """
    fields = args.field.split(",")
    groups = list(arguments.group_seeds(args.workdirs, "results").values())
    known_fields = sorted({name for group in groups for name in group.config})
    for field in fields:
        choose_from("field", field, known_fields)
    measure = Measure(average=args.average)
    known_rules = [k for g in groups for k in g.runs[0].results["rules"]]
    shown = {}
    for rule in arguments.rules(args.rule, known_rules):
        series = shown[f"rule {rule}"] = []
        for label, members in _series(groups, fields).items():
            rows = []
            for g in members:
                by_seed = measures.values(g, rule, args.statistic, measure)
                rows += [(_value(g, fields), [*by_seed.values()])] if by_seed else []
            rows.sort(key=lambda row: (isinstance(row[0], str), row[0]))
            series += [_against(label, rows)] if rows else []
    if not any(shown.values()):
        raise UserError(
            f"no run has statistic {args.statistic!r}: give another --statistic."
        )
    statistic = args.statistic
    if statistic == "best":
        runs = [run for g in groups for run in g.runs]
        statistic = f"best {measures.best_chosen_on(runs)} round"
    note = f"accuracy ({args.average}, {statistic}); mean, least and largest of seeds"
    xlabel = " or ".join(dict.fromkeys(fields))
    plots.bands(args.out, shown, xlabel, "test accuracy (%)", note=note)


def _field(group: SeedGroup, fields) -> str | None:
    """Returns the first of the fields that the configuration has."""
    return next((f for f in fields if f in group.config), None)


def _value(group: SeedGroup, fields):
    """Returns the value of the field; None if the run has none."""
    field = _field(group, fields)
    if field == "method.s":
        return masks.coordinates_per_class(
            group.config[field], group.config["model.feat_dim"]
        )
    return None if field is None else group.config[field]


def _rest(group: SeedGroup, fields) -> dict:
    """Returns the configuration without its field."""
    own = _field(group, fields)
    return {k: v for k, v in group.config.items() if k != own}


def _series(groups: Sequence[SeedGroup], fields) -> dict[str, list[SeedGroup]]:
    """Returns groups that differ in their field alone.

    Their name is the method, the other fields that differ, and the field if groups have
    different ones.
    """
    by_rest: dict[str, list[SeedGroup]] = {}
    for group in groups:
        key = settings_key(group.runs[0], _field(group, fields))
        by_rest.setdefault(key, []).append(group)
    several = len({_field(g, fields) for g in groups} - {None}) > 1
    firsts, names = [members[0] for members in by_rest.values()], []
    apart = fields_apart([g.method for g in firsts], [_rest(g, fields) for g in firsts])
    for g, differing in zip(firsts, apart, strict=True):
        details = [
            f"{k.split('.')[-1]} {arguments.tick_text(g.config.get(k))}"
            for k in differing
        ]
        field = _field(g, fields)
        details += [field.split(".")[-1]] if several and field else []
        names.append(with_details(display_name(g.config), details))
    return dict(zip(names, by_rest.values(), strict=True))


def _against(label: str, rows) -> plots.Band:
    """Returns a series over values of a field, or a line across without such a value.

    A row is a value of the field and the accuracies of the seeds.
    """
    fields, accuracies = zip(*rows, strict=True)
    acc_SN = np.array([*itertools.zip_longest(*accuracies, fillvalue=np.nan)], float)
    if fields[0] is None:
        return plots.band(label, [], acc_SN, "across")
    numeric = all(type(x) in (int, float) for x in fields)  # True and False are names
    x_N = list(fields) if numeric else [str(x) for x in fields]
    return plots.band(label, x_N, acc_SN, "points")


def rounds_to_target(args):
    """Draws rounds and bytes to reach an accuracy, a bar for each method."""
    measure = Measure(average=args.average)
    targets.check(args.target, measure)
    groups = arguments.group_seeds(args.workdirs)
    runs = _evaluations(groups)
    curves.check_evaluations(runs)
    rule = _rule(args.rule, [seeds[0][-1]["rules"] for seeds in runs.values()])
    bars = [_bar(n, g, rule, measure, args.target) for n, g in groups.items()]
    title = f"until {args.target:g} % test accuracy, rule {rule}, {args.average}"
    note = arguments.seeds_note(groups.values())
    plots.rounds_to_target_bars(args.out, bars, "\n".join(filter(None, [title, note])))


def _rule(chosen: str | None, by_run: Sequence[Mapping]) -> str:
    """Returns the given rule, or the first that all runs have, else the first."""
    known = list(dict.fromkeys(rule for rules in by_run for rule in rules))
    common = [rule for rule in known if all(rule in rules for rules in by_run)]
    return arguments.rules(chosen or (common or known)[0], known)[0]


def _bar(name: str, group: SeedGroup, rule: str, measure: Measure, target: float):
    histories = [measures.history(run, rule, measure) for run in group.runs]
    runs = [run for run in group.runs if rule in run.evaluations()[-1]["rules"]]
    found = [targets.first_reaching(run, rule, measure, target) for run in runs]
    reached = [record for record in found if record is not None]
    numbers = [x for history in histories for x, _ in history if x is not None]
    return plots.Bar(
        name,
        [record["round"] for record in reached],
        [sum(record["bytes_total"].values()) for record in reached],
        len(runs),
        max((measure.scale * x for x in numbers), default=float("nan")),
    )


def partition(args):
    """Draws training examples per client and class (ProtoNorm Figures 1, 7, 8)."""
    (path,) = args.workdirs
    folder = on_disk(path)
    count_KC = partition_stats.read_csv(folder / "partition.csv").train
    clients = arguments.select(args.clients, len(count_KC), "clients")
    classes = arguments.select(args.classes, count_KC.shape[1], "classes")
    shown = count_KC[np.ix_(clients, classes)]
    name = next(iter(arguments.by_label([path]))) if has_begun(folder) else ""
    plots.partition_heatmap(args.out, shown, clients, classes, name)
