"""Rounds and bytes until a run first evaluates at a target."""

from collections.abc import Mapping, Sequence

from jaxproto.errors import UserError
from jaxproto.reporting.compare import measures
from jaxproto.reporting.compare.measures import Measure
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.storage.run_folder import RunFolder


def _megabytes(record: Mapping) -> float | None:
    """Sent so far, by all clients and to them."""
    sent = record.get("bytes_total")
    return None if sent is None else sum(sent.values()) / 1e6


COUNTS = (  # title, form of the number, of the record of the evaluation
    ("rounds", ".1f", lambda record: record["round"]),
    ("MB", ",.3f", _megabytes),
)


def column_title(rule: str, count: str, target: float, measure: Measure) -> str:
    """`head rounds to 90 %`."""
    return f"{rule}{measure.name} {count} to {target:g}{measure.unit}"


def check(target: float, measure: Measure):
    """Raises UserError where no run can be at a target, or every one is."""
    if measure.unit and not 0 < target <= 100:
        raise UserError(
            f"--target={target:g} is no share in %: give more than 0 and at most 100, "
            "such as --target=90."
        )


def first_reaching(
    run: RunFolder, rule: str, measure: Measure, target: float
) -> Mapping | None:
    """The record of the first evaluation at the target or beyond; None without one."""
    for number, record in measures.history(run, rule, measure):
        if number is not None:
            ahead = measure.better * (measure.scale * number - target)
            if ahead >= -1e-9:  # 0.9 * 100 may be below 90
                return record
    return None


def caption(target: float, measure: Measure) -> str:
    """What the columns count."""
    side = "at most" if measure.better < 0 else "at least"
    return (
        f"To {target:g}{measure.unit}: the first evaluation of {side} that, and all "
        "bytes sent until then, both ways; no number where a seed did not reach it."
    )


def runs_below_target(
    rows: Sequence[tuple[str, SeedGroup]],
    rules: Sequence[str],
    measure: Measure,
    target: float,
) -> list[str]:
    """One sentence per row and rule of which runs have not come to the target."""
    told = []
    for name, group in rows:
        for rule in rules:
            there = [
                r for r in group.finished if rule in measures.rules(r, measure.metric)
            ]
            seeds = sorted(
                r.config["seed"]
                for r in there
                if first_reaching(r, rule, measure, target) is None
            )
            if seeds:
                which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
                told.append(
                    f"{group.dataset}: {name}, {rule}: {target:g}{measure.unit} not "
                    f"reached by {len(seeds)} of {len(there)} ({which})."
                )
    return told
