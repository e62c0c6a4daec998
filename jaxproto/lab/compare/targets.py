"""Rounds and bytes until the first evaluation that reaches a target."""

import itertools
from collections.abc import Mapping, Sequence

from jaxproto.errors import UserError
from jaxproto.lab.compare import measures
from jaxproto.lab.compare.measures import Measure
from jaxproto.lab.compare.run_groups import SeedGroup
from jaxproto.storage.run_folder import RunFolder


def _megabytes(record: Mapping) -> float | None:
    """Returns megabytes sent so far, both ways, by all clients."""
    sent = record.get("bytes_total")
    return None if sent is None else sum(sent.values()) / 1e6


COUNTS = (  # title, format of the number, record -> number
    ("rounds", ".1f", lambda record: record["round"]),
    ("MB", ",.3f", _megabytes),
)


def check(target: float, measure: Measure):
    """Raises UserError for a share in % that is not above 0 and at most 100."""
    if measure.unit and not 0 < target <= 100:
        raise UserError(
            f"--target={target:g} is no share in %: give more than 0 and at most 100, "
            "such as --target=90."
        )


def first_reaching(
    run: RunFolder, rule: str, measure: Measure, target: float
) -> Mapping | None:
    """Returns the record of the first evaluation that reaches the target, or None."""
    for number, record in measures.history(run, rule, measure):
        if number is not None:
            ahead = measure.better * (measure.scale * number - target)
            if ahead >= -1e-9:  # 0.9 * 100 may be below 90
                return record
    return None


def caption(target: float, measure: Measure) -> str:
    """Returns a note that explains the columns."""
    side = "at most" if measure.better < 0 else "at least"
    return (
        f"To {target:g}{measure.unit}: the first evaluation of {side} that, and all "
        "bytes sent until then, both ways; no number where a seed did not reach it."
    )


def runs_below_target(
    rows: Sequence[SeedGroup],
    rules: Sequence[str],
    by_average: Sequence[Measure],
    target: float,
) -> list[str]:
    """Returns a sentence for each row, rule and average with seeds below the target."""
    notes = []
    for group, rule, measure in itertools.product(rows, rules, by_average):
        metric = measure.metric
        runs = [r for r in group.finished if rule in measures.rules(r, metric)]
        below = [r for r in runs if first_reaching(r, rule, measure, target) is None]
        if below:
            seeds = ", ".join(map(str, sorted(r.config["seed"] for r in below)))
            notes.append(
                f"{group.block}: {group.label}, {rule}{measure.word}: "
                f"{target:g}{measure.unit} not reached by {len(below)} "
                f"of {len(runs)} (seed{'s' * (len(below) > 1)} {seeds})."
            )
    return notes
