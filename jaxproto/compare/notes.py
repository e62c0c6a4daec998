"""What a reader of the table must know: seeds, what is missing, what differs."""

from collections.abc import Iterable, Sequence

from jaxproto.compare import cells
from jaxproto.compare.runs import Group, differing

PAPERS = {  # source -> name of the paper
    "tinyproto_aaai26": "TinyProto",
    "cps_ppa_cpkd_iclr_sub": "CPS+PPA+CPKD",
    "protonorm": "ProtoNorm",
    "refprotofl": "RefProtoFL",
}
TOLD = {  # statistic or average -> how it is said
    "final": "final evaluation",
    "best": "best evaluation",
    "last10": "mean of the last 10 evaluations",
    "pooled": "pooled over test examples",
    "client": "mean over clients",
}
Row = tuple[str, Group]  # with its label, which is one per data set


def lines(
    groups: Sequence[Group], rows: Sequence[Row], statistic: str, average: str
) -> list[str]:
    """One sentence each.

    Args:
      groups: all that was given.
      rows: those of them with a finished run.
      statistic, average: as in `tables.table`.
    """
    number = sorted({len(g.seeds) for _, g in rows})
    count = " or ".join(map(str, number)) + " seed" + "s" * (number[-1] > 1)
    return [
        f"Accuracy in %, {TOLD[statistic]}, {TOLD[average]}; mean ± standard "
        f"deviation (ddof 0) of {count}.",
        *_seeds(rows),
        *_published(rows),
        *_left_out(groups),
        *_within(rows),
        *_between(rows),
    ]


def _seeds(rows: Sequence[Row]) -> list[str]:
    """Which, unless they are the same everywhere."""
    seeds = _shared((", ".join(map(str, g.seeds)), name) for name, g in rows)
    return [f"Seeds: {seeds}."] if len({g.seeds for _, g in rows}) > 1 else []


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
        beside = cells.beside(g.config, g.dataset)
        for row in {r.source: r for r in reversed(beside)}.values():
            found = cells.departures(row, g.config)
            parts = [f"{k} {ours} ({paper})" for k, (paper, ours) in found.items()]
            if parts:
                whose = f"{PAPERS[row.source]}'s setting in brackets"
                told[f"{g.dataset}: {name}, {whose}: {', '.join(parts)}."] = None
    if not any(cells.beside(g.config, g.dataset) for _, g in rows):
        return []
    how = (
        "Published: best of 300 rounds (RefProtoFL: of 50), by the rule of each "
        "paper (TinyProto and ProtoNorm say local, CPS+PPA+CPKD global)."
    )
    return [how, *told]


def _left_out(groups: Sequence[Group]) -> list[str]:
    return [
        f"Left out: {r.path} ({r.summary['status'] if r.summary else 'not finished'})."
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
    return [k for k in differing(list(configs)) if not k.startswith("method.")]
