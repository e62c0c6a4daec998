"""Where the runs stand, the comparison of those that ended, and what went wrong."""

from collections.abc import Sequence

from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.reporting import compare
from jaxproto.reporting.compare import baselines
from jaxproto.reporting.html.discover import SkippedRun
from jaxproto.reporting.html.run_view import SeedGroupView, progress
from jaxproto.reporting.html.table import MISSING, Table, per_cent
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import reference_accuracy


def run_table(lines: Sequence[SeedGroupView]) -> Table:
    """A row per run: how far it is, and its accuracies."""
    last = [one.last for line in lines for one in line.runs if one.last]
    rules = list(dict.fromkeys(rule for record in last for rule in record["rules"]))
    rows = [
        (
            one.name,
            line.label,
            str(one.config["seed"]),
            progress(one),
            *(_accuracy(one, rule) for rule in rules),
        )
        for line in lines
        for one in line.runs
    ]
    head = ("run", "method", "seed", "state", *(f"{rule} %" for rule in rules))
    caption = "Runs: last evaluation, pooled over test examples, and (the best one)"
    return Table(caption, head, rows)


def _accuracy(one: RunFolder, rule: str) -> str:
    found = [r["rules"].get(rule, {}).get("pooled") for r in one.records]
    known = [a for a in found if a is not None]
    if not known:
        return MISSING
    last = MISSING if found[-1] is None else per_cent(found[-1])
    return f"{last} ({per_cent(max(known))})"


def comparison(lines: Sequence[SeedGroupView]) -> tuple[Table | None, tuple[str, ...]]:
    """The table of `jaxproto compare`, published numbers beside ours, and its notes."""
    try:
        made = compare.table([line.group for line in lines])
    except UserError as e:
        return None, (str(e),)
    caption = "Runs that have finished, and what papers print for the same setting"
    rows = [[escape_unprintable(str(cell)) for cell in row] for row in made.rows]
    return Table(
        caption, [escape_unprintable(str(h)) for h in made.head], rows
    ), made.notes


def alerts(lines: Sequence[SeedGroupView], left_out: Sequence[SkippedRun]) -> list[str]:
    """What a reader must see first: diverged, collapsed, not ended, left out."""
    seen = [one for line in lines for one in line.runs]
    told = [
        f"{one.name} diverged: "
        f"{escape_unprintable(str(one.summary.get('reason', 'no reason')))}"
        for one in seen
        if one.summary and one.status() is Status.DIVERGED
    ]
    told += [line for one in seen for line in _collapsed(one)]
    if going := [one.name for one in seen if not one.status().ended]:
        told.append(
            f"Not ended: {first_few(going)}. The page shows what was there when it was "
            "made; the same command makes it again."
        )
    return told + [f"Left out: {path}: {why}" for path, why in left_out]


def _collapsed(one: RunFolder) -> list[str]:
    told = []
    for rule, since in collapsed(one).items():
        last = one.last["rules"].get(rule, {}).get("pooled") if one.last else None
        share = "" if last is None else f" {per_cent(last)} %"
        told.append(
            f"{one.name} collapsed: {rule}{share} since round {since} "
            f"{reference_accuracy.MEANS}."
        )
    return told


def collapsed(one: RunFolder) -> dict[str, int]:
    """Rules that are at the share of one class, finished or not, and since when."""
    try:
        return dict(baselines.collapsed_rules(one, baselines.majority_share(one)))
    except (UserError, TypeError, AttributeError, ValueError):  # of other versions
        return {}
