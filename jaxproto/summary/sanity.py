"""Signs that a run is broken, in one line each.

A broken run trains and ends like any other. Its rounds show it up to the first
evaluation: no client took part, or training has changed no weight. A rule that is never
right shows it at the first evaluation: none of 1,437 rules in `results/` has 0 % there.
A low accuracy shows it later: 310 of these rules are below half of the reference at the
first evaluation, but only 42 at the last one, mostly of runs with few rounds. So it is
said at the end, and after three such evaluations or more.
"""

from collections.abc import Iterable, Mapping, Sequence

import ml_collections

from jaxproto.data.partition_stats import MajorityShare
from jaxproto.errors import first_few
from jaxproto.experiment.build import Experiment
from jaxproto.methods import METHODS
from jaxproto.models import registry
from jaxproto.origin import is_external
from jaxproto.round.uploads import Report
from jaxproto.summary.reference_accuracy import STEADY

SCORES = "the largest score must be that of the predicted class, and finite"
LOW = 0.5  # share of the reference below which a rule is low


def trains_all_parts(config: ml_collections.ConfigDict, exp: Experiment) -> bool:
    """Returns whether a part of the parameters that training never changes is a sign.

    A method with `trainable` chooses the parts; one of this package may fix some.
    """
    used = METHODS[config.method.name], *(registry.factory(c.name) for c in exp.cohorts)
    return exp.method.trainable is None and any(map(is_external, used))


class TrainingSigns:
    """Signs in the training of a run, collected until the next record has them."""

    def __init__(self, evaluated: bool, all_parts: bool):
        """Starts without signs.

        Args:
          evaluated: Whether an earlier process has recorded the first evaluation.
          all_parts: Whether every part of the parameters should be trained.
        """
        self._first, self._all_parts = not evaluated, all_parts
        self._trained, self._changed = False, dict[str, bool]()
        self._not_finite = set[int]()
        self._warnings = list[str]()

    def round(self, r: int, reports: Sequence[Report]) -> list[str]:
        """Adds round `r`, from 1; returns new warnings."""
        for report in reports:
            on = report.steps > 0
            self._trained |= bool(on.any())
            for part, changed_R in report.changed.items():
                changed = bool(changed_R[on].any())
                self._changed[part] = self._changed.get(part, False) or changed
        ids = {i for report in reports for i in report.id[~report.finite].tolist()}
        new, self._not_finite = ids - self._not_finite, self._not_finite | ids
        clients = first_few(sorted(new))
        line = (
            f"round {r}: weights are not finite, for the first time: clients {clients}"
        )
        lines = [line] if new else []
        self._warnings += lines
        return lines

    def evaluated(self, record: Mapping) -> tuple[list[str], list[str]]:
        """Returns the warnings of an evaluation: new ones, and all for its record."""
        new = []
        if self._first:
            new = [*self._of_training(record["round"]), *never_right(record)]
        self._first, every, self._warnings = False, self._warnings + new, []
        return new, every

    def _of_training(self, r: int) -> list[str]:
        """Returns what has not been trained until the first evaluation."""
        until = f"until round {r}" if r > 1 else "in round 1"
        if not self._trained:
            return [
                f"no client has trained {until}: look at participation and at the "
                "sampler of the run"
            ]
        still = [part for part, changed in self._changed.items() if not changed]
        if still and len(still) == len(self._changed):
            return [
                f"training has changed no weight of any client {until}: look at the "
                "loss and at the learning rate"
            ]
        if not (self._all_parts and still):
            return []
        return [
            f"training has changed no weight of {first_few(still)} {until}: it is "
            "fixed on purpose, or no gradient of the loss reaches it"
        ]


def never_right(record: Mapping) -> list[str]:
    """Returns a line per rule of a record that is right on no test example."""
    return [
        f"rule {rule!r} is right on no test example after round {record['round']}: "
        f"{SCORES}"
        for rule, accuracy in record["rules"].items()
        if accuracy["pooled"] == 0
    ]


def low_rules(records: Sequence[Mapping], majority: MajorityShare) -> list[str]:
    """Returns a line per rule whose last evaluations are far below the reference."""
    last = [record["rules"] for record in records[-STEADY:]]
    limit = LOW * majority.pooled

    def is_low(rule):
        pooled = [rules.get(rule, {}).get("pooled") for rules in last]
        return all(share is not None and share < limit for share in pooled)

    return [
        f"rule {rule!r} ends at {last[-1][rule]['pooled']:.2%}, below half of the "
        f"reference {majority.pooled:.2%}: it needs more rounds, or look at its scores"
        for rule in (last[-1] if len(last) == STEADY else ())
        if is_low(rule)
    ]


def run_warnings(
    records: Sequence[Mapping], majority: MajorityShare | None
) -> list[str]:
    """Returns the warnings of a run for its summary."""
    lines = [line for record in records for line in record.get("warnings", [])]
    if majority is not None:
        lines += low_rules(records, majority)
    return lines


def warning_lines(lines: Iterable[str]) -> list[str]:
    """Returns warnings as a terminal shows them."""
    return [f"warning: {line}" for line in lines]
