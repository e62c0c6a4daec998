"""Notes below a table: seeds, missing runs, differing settings, the papers' rules."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from jaxproto.config.factory_fields import builtin_field
from jaxproto.config.fields import FOLLOW
from jaxproto.lab.compare import baselines, measures
from jaxproto.lab.compare.columns import PUBLISHED, TableRequest
from jaxproto.lab.compare.run_groups import (
    CLIENTS,
    ON_NODES,
    SeedGroup,
    by_value,
    differing_fields,
    fields_apart,
)
from jaxproto.papers import cells
from jaxproto.papers.numbers import ACCURACY, PAPERS, PublishedNumber, published_numbers
from jaxproto.papers.rules import published_rule
from jaxproto.storage import records
from jaxproto.storage.provenance import CODE

WORDING = {  # statistic (for "best" see `_best`) or average -> its wording
    "final": "final evaluation",
    "last10": "mean of the last 10 evaluations or all if fewer",
    "client_best": "each client's best test evaluation",
    "pooled": "pooled over test examples",
    "client": "mean over clients",
}
AVERAGE = "AVERAGE"  # prefix of the data set of a printed average
Rows = Sequence[SeedGroup]  # with labels, unique in each block


def footnotes(groups: Sequence[SeedGroup], request: TableRequest) -> list[str]:
    """Returns the notes, one sentence each; `groups` are all, finished or not."""
    rows, measure = request.groups, request.measures[0]
    published = PUBLISHED in request.kinds
    averages = " and ".join(WORDING[m.average] for m in request.measures)
    counts = sorted({len(g.seeds) for g in rows})
    seeds = " or ".join(map(str, counts)) + " seed" + "s" * (counts[-1] > 1)
    name = "Accuracy" if measure.metric == measures.ACCURACY else measure.metric
    metric = f"{name}{' in %' * bool(measure.unit)}"
    wording = WORDING | {"best": _best(rows)}
    return [
        f"{metric}, {' and '.join(wording[s] for s in request.statistics)}, "
        f"{averages}; mean ± standard deviation "
        f"(ddof {measure.ddof}) of {seeds}.",
        *(_last(rows) if "last10" in request.statistics else ()),
        *_seeds(rows),
        *_partitions(rows),
        *baselines.footnotes(rows),
        *([*_published(rows), *_averages(rows)] if published else []),
        *_nodes(rows),
        *_left_out(groups),
        *_within(rows),
        *_method_fields(rows),
        *_between(rows),
        *_sources(rows),
        *_code(rows),
    ]


def _best(rows: Rows) -> str:
    """Returns the examples that chose the best round, by row if they differ."""
    chosen = [(f"best {measures.best_chosen_on(g.finished)} round", g) for g in rows]
    several = len({text for text, _ in chosen}) > 1
    return _by_row(chosen) if several else chosen[0][0]


def _seeds(rows: Rows) -> Iterable[str]:
    """Yields the seeds of each row, unless all rows have the same."""
    if len({g.seeds for g in rows}) > 1:
        seeds = _by_row((", ".join(map(str, g.seeds)), g) for g in rows)
        yield f"Seeds: {seeds}."


def _partitions(rows: Rows) -> Iterable[str]:
    """Yields a warning where seeds share a partition."""
    several = [g for g in rows if len(g.seeds) > 1]
    shared = [g for g in several if g.config["data.seed"] != FOLLOW]
    drawn = _by_row((g.config["data.seed"], g) for g in shared)
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
    numbers = [(number, g) for g in rows for number in _last_numbers(g)]
    if not {number for number, _ in numbers} <= {records.LAST}:
        yield f"Last evaluations: {_by_row(numbers)}."


def _last_numbers(group: SeedGroup) -> set:
    """Returns the numbers of last evaluations; for older runs from `metrics.jsonl`."""
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


def _by_row(pairs: Iterable[tuple[object, SeedGroup]]) -> str:
    """Returns values with their rows; those of a name with several name the block."""
    known = [(str(value), g.label, g.block) for value, g in pairs]
    numbers = Counter(label for _, label in {row[:2] for row in known})
    names = (label + f" on {block}" * (numbers[label] > 1) for _, label, block in known)
    return by_value(zip((value for value, *_ in known), names, strict=True))


def _published(rows: Rows) -> list[str]:
    """Returns the rule of the papers' numbers, and settings in which runs differ."""
    published = [(g, cells.published_for(g.config, g.dataset)) for g in rows]
    if not any(numbers for _, numbers in published):
        return []
    departures: dict[str, None] = {}
    for g, numbers in published:
        for row in {r.source: r for r in reversed(numbers)}.values():
            reading, fields = cells.closest_reading(row, g.config)
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


def _averages(rows: Rows) -> Iterable[str]:
    """Yields averages over data sets, of methods with a run in each of their cells.

    They are those of the last columns of RefProtoFL's Table 2.
    """
    for row in (r for r in published_numbers() if r.dataset.startswith(AVERAGE)):
        averaged = _averaged(row)
        known = [b for c in averaged if (b := _best_in_cell(rows, c)) is not None]
        if averaged and len(known) == len(averaged):
            yield (
                f"Average over the {len(known)} cells of {row.method} in {row.place}: "
                f"{statistics.fmean(known):.2f} (best by "
                f"{published_rule(averaged[0])}); published {row.mean}."
            )


def _averaged(row: PublishedNumber) -> list[PublishedNumber]:
    """Returns the cells that go into a printed average."""
    return [
        cell
        for cell in published_numbers()
        if (cell.source, cell.table) == (row.source, row.table)
        and (cell.method, cell.variant) == (row.method, row.variant)
        and cell.metric in ACCURACY
        and cells.paper_cell(cell) is not None
    ]


def _best_in_cell(rows: Rows, row: PublishedNumber) -> float | None:
    """Returns the best accuracy in %, mean over seeds, of the first group in a cell."""
    rule, average = published_rule(row)
    identity = cells.require_cell(row).identity
    for g in rows:
        if not cells.matches(identity, g.config, g.dataset):
            continue
        by_run = [r.results["rules"] for r in g.finished]
        best = [rules[rule][average]["best"] for rules in by_run if rule in rules]
        if best:
            return 100 * statistics.fmean(best)
    return None


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
    for block in dict.fromkeys(g.block for g in rows):
        configs = [(g.label, g.config) for g in rows if g.block == block]
        for key in _differing(config for _, config in configs):
            values = by_value((config.get(key), name) for name, config in configs)
            notes.append(f"{block}: {key} differs: {values}.")
    return notes


def _method_fields(rows: Rows) -> Iterable[str]:
    """Yields the fields of methods that rows of one block share with unequal values."""
    for block in dict.fromkeys(g.block for g in rows):
        here = [g for g in rows if g.block == block]
        keys = {k for g in here for k in g.config if k.startswith("method.")}
        for key in sorted(keys - {"method.name"}):
            for alike in _of_one_meaning([g for g in here if key in g.config], key):
                if _is_hidden(alike, key):
                    values = by_value((g.config[key], g.label) for g in alike)
                    yield f"{block}: {key} differs: {values}."


def _of_one_meaning(rows: Rows, key: str) -> list[list[SeedGroup]]:
    """Returns the rows by the meaning of a method's field; all if one is a user's.

    Built-in methods mean the same by numbers with one description. Their defaults,
    which are their papers', and their options, which name them, are left out.
    """
    fields = [(g, f) for g in rows if (f := builtin_field(g.method, key))]
    if len(fields) < len(rows):
        return [[*rows]]
    alike: dict[str, list[SeedGroup]] = {}
    changed = set()
    for g, field in fields:
        if isinstance(field.default, int | float):
            alike.setdefault(field.help, []).append(g)
            changed |= {field.help} if g.config[key] != field.default else set()
    return [alike[meaning] for meaning in alike if meaning in changed]


def _is_hidden(rows: Rows, key: str) -> bool:
    """Returns whether a row without the field in its label has no equal elsewhere.

    The rows of another method must have its value, as those of a sweep do.
    """
    values: dict[str, set] = {}
    for g in rows:
        values.setdefault(g.method, set()).add(g.config[key])
    return any(
        key not in g.label_fields
        and any(g.config[key] not in v for v in values.values())
        for g in rows
    )


def _between(rows: Rows) -> list[str]:
    """Returns fields that differ between blocks, but not within one or in titles."""
    by_block: dict[str, list[dict]] = {}
    for g in rows:
        by_block.setdefault(g.block, []).append(g.config)
    mixed = {key for configs in by_block.values() for key in _differing(configs)}
    firsts = {block: configs[0] for block, configs in by_block.items()}
    lengths = fields_apart([g.dataset for g in rows], [g.config for g in rows])
    of_data_set = {key for fields in lengths for key in fields}
    return [
        f"{key} differs: {by_value((c.get(key), b) for b, c in firsts.items())}."
        for key in _differing(firsts.values())
        if key not in mixed and (not key.startswith("data.") or key in of_data_set)
        if key != "rounds" or not any(g.length for g in rows)
    ]


def _sources(rows: Rows) -> Iterable[str]:
    """Yields reading and commit of summaries, where rows differ in them."""
    for key in ("reading", "commit"):
        values = [(r.results.get(key, "unknown"), g) for g in rows for r in g.finished]
        if len({value for value, _ in values}) > 1:
            yield f"{key} differs: {_by_row(values)}."


def _code(rows: Rows) -> Iterable[str]:
    """Yields code of the user that runs of one block have in several versions."""
    versions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for g in rows:
        for run in g.finished:
            for entry in run.provenance:
                for name, digest in entry["sections"].get(CODE, {}).items():
                    found = versions.setdefault((g.block, name), [])
                    found.append((digest[:7], str(run.path)))
    for (block, name), found in versions.items():
        if len({digest for digest, _ in found}) > 1:
            yield f"{block}: code differs: {name} is {by_value(found)}."


def _differing(configs: Iterable[dict]) -> list[str]:
    fields = differing_fields(list(configs))
    noted = CLIENTS, CODE  # in notes of their own
    return [k for k in fields if k not in noted and not k.startswith("method.")]
