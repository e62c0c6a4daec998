"""Notes below a table: the meaning of its numbers, and why rows may not compare."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jaxproto.config.fields import FOLLOW
from jaxproto.lab.compare import baselines, measures, method_fields
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
from jaxproto.papers.numbers import PAPERS
from jaxproto.storage import records
from jaxproto.storage.provenance import CODE

WORDING = {  # statistic (for "best" see `_heading`) or average -> its wording
    "final": "final evaluation",
    "last10": "mean of the last 10 evaluations or all if fewer",
    "client_best": "each client's best test evaluation",
    "pooled": "pooled over test examples",
    "client": "mean over clients",
}
SHARED = (
    "All seeds of a row share one partition, that of data.seed{}: the deviation is "
    "that of weights and batches. --config.data.seed=follow draws a partition for each "
    "seed."
)
NODES = (
    "The clients of {} were nodes, with processes of their own: the seconds there "
    "include the way of every message."
)
RULE = (
    "Published: best of 300 rounds (RefProtoFL: of 50), by the rule that released code "
    "evaluates, pooled (the texts of TinyProto and ProtoNorm say local, CPS+PPA+CPKD "
    "global; RefProtoFL states none, head fits it best). HtFLlib's server, which that "
    "code is, pools; TinyProto's and CPS+PPA+CPKD's texts say the mean over clients, "
    "ProtoNorm's the mean of each client's best round."
)
FEW = 4  # rows of one value that a note always lists
Rows = Sequence[SeedGroup]  # with labels, unique in each block


def footnotes(groups: Rows, request: TableRequest) -> list[str]:
    """Returns the notes, one sentence each; `groups` are all, finished or not."""
    rows = request.groups
    several = [g for g in rows if len(g.seeds) > 1]
    shared = [g for g in several if g.config["data.seed"] != FOLLOW]
    only = f" ({_labels(shared)})" * (len(shared) < len(several))
    nodes = [g for g in rows if g.config[CLIENTS] == ON_NODES]
    unfinished = ((r, r.status()) for g in groups for r in g.runs if not r.finished)
    return [
        _heading(request),
        *[SHARED.format(only)] * bool(shared),
        *baselines.footnotes(rows),
        *(_published(rows) if PUBLISHED in request.kinds else ()),
        *[NODES.format(_labels(nodes))] * bool(nodes),
        *(
            f"Left out: {r.path} ({s if s.ended else 'not finished'})."
            for r, s in unfinished
        ),
        *_differences(request),
        *method_fields.footnotes(rows),
        *_code(rows),
    ]


def _labels(rows: Rows) -> str:
    return ", ".join(dict.fromkeys(g.label for g in rows))


def _heading(request: TableRequest) -> str:
    """Returns the meaning of the numbers; best rounds by row if they differ."""
    rows, measure = request.groups, request.measures[0]
    best = [f"best {measures.best_chosen_on(g.finished)} round" for g in rows]
    wording = {"best": best[0] if len({*best}) == 1 else _by_row(best, rows), **WORDING}
    counts = sorted({len(g.seeds) for g in rows})
    name = "Accuracy" if measure.metric == measures.ACCURACY else measure.metric
    return (
        f"{name}{' in %' * bool(measure.unit)}, "
        f"{' and '.join(wording[s] for s in request.statistics)}, "
        f"{' and '.join(wording[m.average] for m in request.measures)}; "
        f"mean ± standard deviation (ddof {measure.ddof}) of "
        f"{' or '.join(map(str, counts))} seed{'s' * (counts[-1] > 1)}."
    )


def _by_row(values: Sequence, rows: Rows) -> str:
    """Returns values with their blocks if these have one each, else with their rows.

    The rows of a value that most of them have are not listed.
    """
    of_block, of_label = dict[str, set](), dict[str, set]()
    for value, g in zip(map(str, values), rows, strict=True):
        of_block.setdefault(g.block, set()).add(value)
        of_label.setdefault(g.label, set()).add(value)
    if len(of_block) > 1 and all(len(known) == 1 for known in of_block.values()):
        names = [g.block for g in rows]
    else:
        several = {label for label, known in of_label.items() if len(known) > 1}
        names = [g.label + f" on {g.block}" * (g.label in several) for g in rows]
    (most, number), *_ = Counter(map(str, values)).most_common()
    listed = [p for p in zip(values, names, strict=True) if str(p[0]) != most]
    if number <= FEW or number < len(listed):
        return by_value(zip(values, names, strict=True))
    return "; ".join([by_value(listed), f"{most} elsewhere"] if listed else [most])


def _published(rows: Rows) -> list[str]:
    """Returns the rule of the papers' numbers, and settings in which runs differ."""
    notes: dict[str, None] = {}
    for g in rows:
        numbers = cells.published_for(g.config, g.dataset)
        notes |= dict.fromkeys([RULE] * bool(numbers))
        for row in {r.source: r for r in reversed(numbers)}.values():
            reading, fields = cells.closest_reading(row, g.config)
            texts = [f"{k} {ours} ({paper})" for k, (paper, ours) in fields.items()]
            variant = f" (reading={reading})" if reading else ""
            whose = f"{PAPERS[row.source]}'s setting{variant} in brackets"
            if texts:
                notes[f"{g.block}: {g.label}, {whose}: {', '.join(texts)}."] = None
    return [*notes]


def _differences(request: TableRequest) -> Iterable[str]:
    """Yields settings, seeds, readings and commits in which rows differ.

    Titles show numbers of rounds, and data sets differ in their own fields.
    """
    rows = request.groups
    facts = [_facts(g, "last10" in request.statistics) for g in rows]
    apart = fields_apart([g.dataset for g in rows], [g.config for g in rows])
    of_one_set = {f"{key} differs" for fields in apart for key in fields}
    for key in differing_fields(facts):
        titled = key == "rounds differs" and any(g.length for g in rows)
        if not titled and (key in of_one_set or not key.startswith("data.")):
            yield f"{key}: {_by_row([fact.get(key) for fact in facts], rows)}."


def _facts(group: SeedGroup, last10: bool) -> Mapping[str, object]:
    """Returns what rows may differ in, by the beginning of the note on it."""
    results = [run.results for run in group.finished]
    rules = [rule for r in results for rule in r["rules"].values()] if last10 else []
    numbers = (
        records.mean_last(digest)[1] for rule in rules for digest in rule.values()
    )
    facts = {
        "Seeds": group.seeds,
        "Last evaluations": [n or f"{records.LAST} at most" for n in numbers],
        "reading differs": [r.get("reading", "unknown") for r in results],
        "commit differs": [r.get("commit", "unknown") for r in results],
    }
    return {
        **{k: ", ".join(map(str, dict.fromkeys(v))) for k, v in facts.items()},
        **{
            f"{k} differs": v
            for k, v in group.config.items()
            if k not in (CLIENTS, CODE) and not k.startswith("method.")
        },
    }


def _code(rows: Rows) -> Iterable[str]:
    """Yields code of the user that runs of one block have in several versions."""
    versions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for block, run in ((g.block, run) for g in rows for run in g.finished):
        for entry in run.provenance:
            for name, digest in entry["sections"].get(CODE, {}).items():
                found = versions.setdefault((block, name), [])
                found.append((digest[:7], str(run.path)))
    for (block, name), found in versions.items():
        if len({digest for digest, _ in found}) > 1:
            yield f"{block}: code differs: {name} is {by_value(found)}."
