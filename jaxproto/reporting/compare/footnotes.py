"""Notes below a table: seeds, missing runs, differing settings, the papers' rules."""

from collections.abc import Iterable, Sequence

from jaxproto.config.fields import FOLLOW
from jaxproto.reporting.compare import baselines, measures, paper_averages, paper_cells
from jaxproto.reporting.compare.columns import PUBLISHED, TableRequest
from jaxproto.reporting.compare.paper_numbers import PAPERS
from jaxproto.reporting.compare.run_groups import (
    CLIENTS,
    ON_NODES,
    SeedGroup,
    differing_fields,
)
from jaxproto.storage import records

WORDING = {  # statistic, but "best", or average -> wording
    "final": "final evaluation",
    "last10": "mean of the last 10 evaluations or all if fewer",
    "client_best": "each client's best test evaluation",
    "pooled": "pooled over test examples",
    "client": "mean over clients",
}
Rows = Sequence[SeedGroup]  # with labels, which are one per data set


def footnotes(groups: Sequence[SeedGroup], asked: TableRequest) -> list[str]:
    """Returns the notes, one sentence each.

    Args:
      groups: all groups, finished or not.
      asked: the rows and options of the table.
    """
    rows, measure, published = asked.groups, asked.measures[0], PUBLISHED in asked.kinds
    averages = " and ".join(WORDING[one.average] for one in asked.measures)
    number = sorted({len(g.seeds) for g in rows})
    count = " or ".join(map(str, number)) + " seed" + "s" * (number[-1] > 1)
    plain = measure.metric == measures.ACCURACY
    metric = f"{'Accuracy' if plain else measure.metric}{' in %' * bool(measure.unit)}"
    wording = WORDING | {"best": _best(rows)}
    return [
        f"{metric}, {' and '.join(wording[s] for s in asked.statistics)}, "
        f"{averages}; mean ± standard deviation "
        f"(ddof {measure.ddof}) of {count}.",
        *(_last(rows) if "last10" in asked.statistics else ()),
        *_seeds(rows),
        *_partitions(rows),
        *baselines.footnotes(rows),
        *([*_published(rows), *paper_averages.footnotes(rows)] if published else []),
        *_nodes(rows),
        *_left_out(groups),
        *_within(rows),
        *_between(rows),
        *_sources(rows),
    ]


def _best(rows: Rows) -> str:
    """Returns the data that chose the best round, by row if they differ."""
    chosen = []
    for group in rows:
        rules = [
            rule for run in group.finished for rule in run.results["rules"].values()
        ]
        on = records.chosen_on(digests["pooled"] for digests in rules)
        chosen.append((f"best {on} round", group.label))
    shared = _shared(chosen)
    return shared if len({text for text, _ in chosen}) > 1 else chosen[0][0]


def _seeds(rows: Rows) -> Iterable[str]:
    """Yields the seeds of each row, unless all rows have the same."""
    if len({g.seeds for g in rows}) > 1:
        seeds = _shared((", ".join(map(str, g.seeds)), g.label) for g in rows)
        yield f"Seeds: {seeds}."


def _partitions(rows: Rows) -> Iterable[str]:
    """Yields a warning where seeds share a partition."""
    several = [g for g in rows if len(g.seeds) > 1]
    shared = [g for g in several if g.config["data.seed"] != FOLLOW]
    drawn = _shared((g.config["data.seed"], g.label) for g in shared)
    only = "" if len(shared) == len(several) else f" ({drawn})"
    if shared:
        yield (
            f"All seeds of a row share one partition, that of data.seed{only}: the "
            "deviation is that of weights and batches. --config.data.seed=follow draws "
            "a partition for each seed."
        )


def _nodes(rows: Rows) -> Iterable[str]:
    """Yields the rows whose clients were separate processes."""
    names = dict.fromkeys(g.label for g in rows if g.config[CLIENTS] == ON_NODES)
    if names:
        yield (
            f"The clients of {', '.join(names)} were nodes, with processes of their "
            "own: the seconds there include the way of every message."
        )


def _last(rows: Rows) -> Iterable[str]:
    """Yields the number of last evaluations, unless it is 10 everywhere."""
    numbers = [(number, g.label) for g in rows for number in _numbers(g)]
    if not {number for number, _ in numbers} <= {records.LAST}:
        yield f"Last evaluations: {_shared(numbers)}."


def _numbers(group: SeedGroup) -> set:
    """Returns the numbers of last evaluations; of older runs by `metrics.jsonl`."""
    result: set[int | str] = set()
    for run in group.finished:
        rules = run.results["rules"].values()
        numbers = {records.mean_last(d)[1] for rule in rules for d in rule.values()}
        if None in numbers:
            last = min(len(run.records), records.LAST)
            result.add(last or f"{records.LAST} at most")
        else:
            result |= {number for number in numbers if number is not None}
    return result


def _shared(pairs: Iterable[tuple[object, str]]) -> str:
    """Returns values with the rows that have them: `1 in a, b; 2 in c`."""
    names: dict[str, dict[str, None]] = {}
    for value, name in pairs:
        names.setdefault(str(value), {})[name] = None
    return "; ".join(f"{value} in {', '.join(of)}" for value, of in names.items())


def _published(rows: Rows) -> list[str]:
    """Returns the rule of the papers' numbers, and settings in which runs differ."""
    published = [(g, paper_cells.published_for(g.config, g.dataset)) for g in rows]
    if not any(numbers for _, numbers in published):
        return []
    departures: dict[str, None] = {}
    for g, numbers in published:
        for row in {r.source: r for r in reversed(numbers)}.values():
            reading, fields = paper_cells.closest_reading(row, g.config)
            texts = [f"{k} {ours} ({paper})" for k, (paper, ours) in fields.items()]
            if texts:
                variant = f" (reading={reading})" if reading else ""
                whose = f"{PAPERS[row.source]}'s setting{variant} in brackets"
                note = f"{g.block}: {g.label}, {whose}: {', '.join(texts)}."
                departures[note] = None
    rule = (
        "Published: best of 300 rounds (RefProtoFL: of 50), by the rule that released "
        "code evaluates, pooled (the texts of TinyProto and ProtoNorm say local, "
        "CPS+PPA+CPKD global; RefProtoFL states none, head fits it best). HtFLlib's "
        "server, which that code is, pools; TinyProto's and CPS+PPA+CPKD's texts say "
        "the mean over clients, ProtoNorm's the mean of each client's best round."
    )
    return [rule, *departures]


def _left_out(groups: Sequence[SeedGroup]) -> list[str]:
    return [
        f"Left out: {r.path} ({r.status() if r.status().ended else 'not finished'})."
        for g in groups
        for r in g.runs
        if not r.finished
    ]


def _within(rows: Rows) -> list[str]:
    """Returns fields outside `method` in which rows of one block differ."""
    notes = []
    for dataset in dict.fromkeys(g.block for g in rows):
        configs = [(g.label, g.config) for g in rows if g.block == dataset]
        for key in _differing(config for _, config in configs):
            values = _shared((config.get(key), name) for name, config in configs)
            notes.append(f"{dataset}: {key} differs: {values}.")
    return notes


def _between(rows: Rows) -> list[str]:
    """Returns fields that differ between blocks, but not within any, nor in titles."""
    per: dict[str, list[dict]] = {}
    for g in rows:
        per.setdefault(g.block, []).append(g.config)
    mixed = {key for configs in per.values() for key in _differing(configs)}
    firsts = {dataset: configs[0] for dataset, configs in per.items()}
    return [
        f"{key} differs: {_shared((c.get(key), d) for d, c in firsts.items())}."
        for key in _differing(firsts.values())
        if key not in mixed and not key.startswith("data.")
        if key != "rounds" or not any(g.length for g in rows)
    ]


def _sources(rows: Rows) -> Iterable[str]:
    """Yields reading and commit of records, where rows differ in them."""
    for key in ("reading", "commit"):
        told = [
            (r.results.get(key, "unknown"), g.label) for g in rows for r in g.finished
        ]
        if len({value for value, _ in told}) > 1:
            yield f"{key} differs: {_shared(told)}."


def _differing(configs: Iterable[dict]) -> list[str]:
    fields = differing_fields(list(configs))
    return [k for k in fields if k != CLIENTS and not k.startswith("method.")]
