"""Pictures of runs from `config.json`, `metrics.jsonl` and `summary.json` alone.

So they can be drawn of the records in results/ too.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from jaxproto import masks, plots
from jaxproto.data import partition_stats
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.display_names import display_name
from jaxproto.reporting.compare.run_groups import SeedGroup, differing_fields
from jaxproto.reporting.compare.tables import AVERAGES, STATISTICS
from jaxproto.reporting.figures import arguments
from jaxproto.reporting.leave_out import read_finished_run
from jaxproto.storage import records
from jaxproto.storage.run_folder import has_begun
from jaxproto.summary import pictures


def accuracy_against_bytes(args):
    """Draws accuracy against bytes sent; mean, least and largest over seeds."""
    plots.accuracy_against_bytes(args.out, _evaluations(args), args.rule)


def accuracy_against_seconds(args):
    """Draws accuracy against simulated time; mean, least and largest over seeds."""
    plots.accuracy_against_seconds(args.out, _evaluations(args), args.rule)


def _evaluations(args) -> dict[str, list]:
    """Returns the records of every seed by the name of their runs."""
    groups = arguments.group_seeds(args.workdirs)
    return {k: [r.evaluations() for r in group.runs] for k, group in groups.items()}


def accuracy(args):
    """Draws accuracy over rounds; mean, least and largest over seeds.

    A run alone has its spread over clients.
    """
    groups = arguments.group_seeds(args.workdirs)
    records = {
        name: [r.evaluations() for r in group.runs] for name, group in groups.items()
    }
    known = [k for seeds in records.values() for k in seeds[0][-1]["rules"]]
    rules = arguments.rules(args.rule, known)
    if len(args.workdirs) == 1 and args.rule is None:
        ((name, (evaluations,)),) = records.items()
        plots.accuracy_over_rounds(args.out, evaluations, name)
        return
    average, shown = AVERAGES[args.average], {f"rule {rule}": [] for rule in rules}
    for name, seeds in records.items():
        for rule in (k for k in rules if k in seeds[0][-1]["rules"]):
            rows = [_accuracies(run, rule, average) for run in seeds]
            shown[f"rule {rule}"].append(_over_rounds(name, rows))
    note = arguments.seeds_note([*groups.values()])
    plots.bands(args.out, shown, "round", "test accuracy (%)", note=note)


def _over_rounds(name: str, rows: Sequence[Mapping[int, float]]) -> plots.Band:
    """Returns a line over the rounds that all seeds have."""
    at = sorted(set.intersection(*[set(row) for row in rows]))
    return plots.band(name, at, np.array([[row[r] for r in at] for row in rows]))


def _accuracies(records, rule: str, average: str) -> dict[int, float]:
    """Returns percentages by round."""
    values = {r["round"]: r["rules"].get(rule, {}).get(average) for r in records}
    return {at: np.nan if v is None else 100 * v for at, v in values.items()}


def iterations(args):
    """Draws iterations of the alignment in every round (ProtoNorm Figure 3a)."""
    shown, groups = [], arguments.group_seeds(args.workdirs)
    for name, group in groups.items():
        runs = [pictures.every_round(r.evaluations(), NAME) for r in group.runs]
        line = _over_rounds(name, [dict(zip(*run, strict=True)) for run in runs])
        if not line.x:
            raise UserError(
                f"{group.runs[0].path} has no {NAME} in its records: it has no "
                "alignment, or is of a version that did not log it. Leave it out."
            )
        shown.append(line)
    note, title = arguments.seeds_note([*groups.values()]), ""
    pictures.iterations(args.out, {title: shown}, note)


NAME = "alignment_iterations"


def accuracy_against_field(args):
    """Draws accuracy against a field of the configuration (TinyProto Figures 4, 5).

    Of fields joined by commas every run goes by the first that it has. Runs without
    any are a dashed line across. Runs that differ in more are lines of their own.
    """
    fields = args.field.split(",")
    groups = list(arguments.group_seeds(args.workdirs, read_finished_run).values())
    known = sorted({name for group in groups for name in group.config})
    for field in fields:
        choose_from("field", field, known)
    options = AVERAGES[args.average], STATISTICS[args.statistic]
    rules = arguments.rules(
        args.rule, [k for g in groups for k in _summary(g)[0]["rules"]]
    )
    shown = {}
    for rule in rules:
        series = []
        for label, members in _series(groups, fields).items():
            rows = [(_place(g, fields), _values(g, rule, options)) for g in members]
            rows = [row for row in rows if row[1]]
            series += [_against(label, sorted(rows, key=_order))] if rows else []
        shown[f"rule {rule}"] = series
    statistic = args.statistic
    if statistic == "best":
        digests = (d for g in groups for s in _summary(g) for d in s["rules"].values())
        statistic = f"best {records.chosen_on(d['pooled'] for d in digests)} round,"
    note = f"{statistic} accuracy, {args.average}; mean, least and largest of seeds"
    xlabel = " or ".join(dict.fromkeys(fields))
    plots.bands(args.out, shown, xlabel, "test accuracy (%)", note=note)


def _summary(group: SeedGroup) -> list[dict]:
    return [run.results for run in group.runs]


def _field(group: SeedGroup, fields) -> str | None:
    """Returns the first of the fields that the configuration has."""
    return next((f for f in fields if f in group.config), None)


def _place(group: SeedGroup, fields):
    """Returns the value of the field; None if the run has none."""
    field = _field(group, fields)
    if field == "method.s":
        return masks.coordinates_per_class(
            group.config[field], group.config["model.feat_dim"]
        )
    return None if field is None else group.config[field]


def _order(row):
    place = row[0]
    return (isinstance(place, str), place) if place is not None else (False, 0)


def _values(group: SeedGroup, rule: str, options) -> list[float]:
    """Returns the percentage of each run."""
    average, statistic = options
    digests = [s["rules"].get(rule, {}).get(average, {}) for s in _summary(group)]
    values = [statistic(d) for d in digests if d]
    return [100 * v for v in values if v is not None]


def _rest(group: SeedGroup, field: str | None) -> dict:
    """Returns the configuration without a field."""
    return {k: v for k, v in group.config.items() if k != field}


def _series(groups: Sequence[SeedGroup], fields) -> dict[str, list[SeedGroup]]:
    """Returns groups that differ in their field alone, by a name."""
    by_rest: dict[str, list[SeedGroup]] = {}
    for group in groups:
        field = _field(group, fields)
        key = json.dumps(_rest(group, field), sort_keys=True, default=str)
        by_rest.setdefault(key, []).append(group)
    several = len({_field(g, fields) for g in groups} - {None}) > 1
    series = list(by_rest.values())
    return dict(zip(_labels(series, fields, several), series, strict=True))


def _labels(series, fields, several: bool) -> list[str]:
    """Returns the method, its distinguishing fields, and the field if there are two."""
    names = []
    for members in series:
        first, field = members[0], _field(members[0], fields)
        name = display_name(first.config)
        alike = [m[0] for m in series if m[0].method == first.method]
        rest = [_rest(group, _field(group, fields)) for group in alike]
        details = [
            f"{k.split('.')[-1]} {arguments.tick_text(first.config.get(k))}"
            for k in differing_fields(rest)
        ]
        details += [field.split(".")[-1]] if several and field else []
        names.append(f"{name} ({', '.join(details)})" if details else name)
    return names


def _against(label: str, rows) -> plots.Band:
    """Returns a series of places, or a line across where there is no place."""
    places, values = zip(*rows, strict=True)
    most = max(map(len, values))
    table = np.full((most, len(values)), np.nan)
    for n, row in enumerate(values):
        table[: len(row), n] = row
    if places[0] is None:
        return plots.band(label, [], table, "across")
    numeric = all(type(x) in (int, float) for x in places)  # True and False are names
    at = list(places) if numeric else [str(x) for x in places]
    return plots.band(label, at, table, "points")


def partition(args):
    """Draws training examples per client and class (ProtoNorm Figures 1, 7, 8)."""
    (path,) = args.workdirs
    count_KC = partition_stats.read_csv(path / "partition.csv").train
    clients = arguments.select(args.clients, len(count_KC), "clients")
    classes = arguments.select(args.classes, count_KC.shape[1], "classes")
    shown = count_KC[np.ix_(clients, classes)]
    plots.partition_heatmap(args.out, shown, clients, classes, _name(path))


def _name(path) -> str:
    """Returns the printed name of a run; "" for a partition alone."""
    return next(iter(arguments.by_label([path]))) if has_begun(path) else ""
