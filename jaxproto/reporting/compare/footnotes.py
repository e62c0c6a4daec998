"""What a reader of the table must know: seeds, what is missing, what differs."""

from collections.abc import Iterable, Sequence

from jaxproto.config.fields import FOLLOW
from jaxproto.reporting.compare import baselines, measures, paper_averages, paper_cells
from jaxproto.reporting.compare.measures import Measure
from jaxproto.reporting.compare.paper_numbers import PAPERS
from jaxproto.reporting.compare.run_groups import (
    CLIENTS,
    ON_NODES,
    SeedGroup,
    differing_fields,
)
from jaxproto.storage import records

WORDING = {  # statistic or average -> how it is said
    "final": "final evaluation",
    "best": "best evaluation",
    "last10": "mean of the last 10 evaluations or all if fewer",
    "pooled": "pooled over test examples",
    "client": "mean over clients",
}
Row = tuple[str, SeedGroup]  # with its label, which is one per data set


def footnotes(
    groups: Sequence[SeedGroup],
    rows: Sequence[Row],
    statistics: Sequence[str],
    measure: Measure,
    published: bool = True,
) -> list[str]:
    """One sentence each.

    Args:
      groups: all that was given.
      rows: those of them with a finished run.
      statistics: as in `tables.table`.
      measure: what the table is of.
      published: whether papers' numbers are beside it.
    """
    number = sorted({len(g.seeds) for _, g in rows})
    count = " or ".join(map(str, number)) + " seed" + "s" * (number[-1] > 1)
    plain = measure.metric == measures.ACCURACY
    metric = f"{'Accuracy' if plain else measure.metric}{' in %' * bool(measure.unit)}"
    return [
        f"{metric}, {' and '.join(WORDING[s] for s in statistics)}, "
        f"{WORDING[measure.average]}; mean ± standard deviation "
        f"(ddof {measure.ddof}) of "
        f"{count}.",
        *(_last(rows) if "last10" in statistics else []),
        *_seeds(rows),
        *_partitions(rows),
        *baselines.footnotes(rows),
        *(_published(rows) if published else []),
        *(paper_averages.footnotes([g for _, g in rows]) if published else []),
        *_nodes(rows),
        *_left_out(groups),
        *_within(rows),
        *_between(rows),
    ]


def _seeds(rows: Sequence[Row]) -> list[str]:
    """Which, unless they are the same everywhere."""
    seeds = _shared((", ".join(map(str, g.seeds)), name) for name, g in rows)
    return [f"Seeds: {seeds}."] if len({g.seeds for _, g in rows}) > 1 else []


def _partitions(rows: Sequence[Row]) -> list[str]:
    """That the deviation over seeds is not one over partitions, where it is not."""
    several = [(name, g) for name, g in rows if len(g.seeds) > 1]
    shared = [(name, g) for name, g in several if g.config["data.seed"] != FOLLOW]
    if not shared:
        return []
    drawn = _shared((g.config["data.seed"], name) for name, g in shared)
    only = "" if len(shared) == len(several) else f" ({drawn})"
    return [
        f"All seeds of a row share one partition, that of data.seed{only}: the "
        "deviation is that of weights and batches. --config.data.seed=follow draws a "
        "partition for each seed."
    ]


def _nodes(rows: Sequence[Row]) -> list[str]:
    """Whose clients were no part of a simulation."""
    names = [name for name, g in rows if g.config[CLIENTS] == ON_NODES]
    if not names:
        return []
    return [
        f"The clients of {', '.join(dict.fromkeys(names))} were nodes, with processes "
        "of their own: the seconds there include the way of every message."
    ]


def _last(rows: Sequence[Row]) -> list[str]:
    """How many evaluations the last ones are, unless it is 10 everywhere."""
    found = [(number, name) for name, g in rows for number in _numbers(g)]
    if {number for number, _ in found} <= {records.LAST}:
        return []
    return [f"Last evaluations: {_shared(found)}."]


def _numbers(group: SeedGroup) -> set:
    """10 or how many there are, by run; of an older one as its `metrics.jsonl` says."""
    found: set[int | str] = set()
    for run in group.finished:
        kinds = [d for each in run.results["rules"].values() for d in each.values()]
        numbers = {records.mean_last(digest)[1] for digest in kinds}
        known = {number for number in numbers if number is not None}
        if len(known) == len(numbers):
            found |= known
        else:
            there = len(run.records)
            found.add(min(there, records.LAST) or f"{records.LAST} at most")
    return found


def _shared(pairs: Iterable[tuple[object, str]]) -> str:
    """Values with those that have them: `1 in a, b; 2 in c`."""
    having: dict[str, list[str]] = {}
    for value, name in pairs:
        having.setdefault(str(value), []).append(name)
    return "; ".join(f"{v} in {', '.join(dict.fromkeys(n))}" for v, n in having.items())


def _published(rows: Sequence[Row]) -> list[str]:
    """How the printed numbers were made, and what is not so in our runs."""
    told: dict[str, None] = {}
    for name, g in rows:
        beside = paper_cells.published_for(g.config, g.dataset)
        for row in {r.source: r for r in reversed(beside)}.values():
            reading, found = paper_cells.closest_reading(row, g.config)
            parts = [f"{k} {ours} ({paper})" for k, (paper, ours) in found.items()]
            if parts:
                read = f" (reading={reading})" if reading else ""
                whose = f"{PAPERS[row.source]}'s setting{read} in brackets"
                told[f"{g.dataset}: {name}, {whose}: {', '.join(parts)}."] = None
    if not any(paper_cells.published_for(g.config, g.dataset) for _, g in rows):
        return []
    how = (
        "Published: best of 300 rounds (RefProtoFL: of 50), by the rule that released "
        "code evaluates, pooled (the texts of TinyProto and ProtoNorm say local, "
        "CPS+PPA+CPKD global; RefProtoFL states none, head fits it best)."
    )
    return [how, *told]


def _left_out(groups: Sequence[SeedGroup]) -> list[str]:
    return [
        f"Left out: {r.path} ({r.status() if r.status().ended else 'not finished'})."
        for g in groups
        for r in g.runs
        if not r.finished
    ]


def _within(rows: Sequence[Row]) -> list[str]:
    """Fields other than a method's own in which rows of one data set differ."""
    notes = []
    for dataset in dict.fromkeys(g.dataset for _, g in rows):
        here = [(name, g.config) for name, g in rows if g.dataset == dataset]
        for key in _differing(config for _, config in here):
            values = _shared((config.get(key), name) for name, config in here)
            notes.append(f"{dataset}: {key} differs: {values}.")
    return notes


def _between(rows: Sequence[Row]) -> list[str]:
    """Fields of training that are one value on each data set, not the same on all."""
    per: dict[str, list[dict]] = {}
    for _, g in rows:
        per.setdefault(g.dataset, []).append(g.config)
    mixed = {key for configs in per.values() for key in _differing(configs)}
    firsts = {dataset: configs[0] for dataset, configs in per.items()}
    return [
        f"{key} differs: {_shared((c.get(key), d) for d, c in firsts.items())}."
        for key in _differing(firsts.values())
        if key not in mixed and not key.startswith("data.")
    ]


def _differing(configs: Iterable[dict]) -> list[str]:
    found = differing_fields(list(configs))
    return [k for k in found if k != CLIENTS and not k.startswith("method.")]
