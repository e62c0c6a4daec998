"""Claims about orders, decided by pairs of recorded runs.

`results.claims` has the columns of the ledger, and the rule of verdicts.
"""

import functools
import statistics as stats
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxproto import config
from jaxproto.config import presets
from jaxproto.config.fields import FOLLOW
from jaxproto.errors import UserError
from jaxproto.lab.callbacks import pictures
from jaxproto.lab.compare import SeedGroup
from jaxproto.lab.compare.measures import Measure, values
from jaxproto.papers.cells import matches
from jaxproto.papers.numbers import GROUPS, PAPERS, SPELLINGS
from jaxproto.papers.rules import RULES, WITHOUT_HEAD
from jaxproto.papers.variants import READINGS

SHOWN, LEVEL, CONTRADICTED, NOT_RUN = "shown", "level", "contradicted", "not run"
STATISTICS = {  # column -> statistic over rounds, average
    f"{over}, {title}": (over, Measure(average=average))
    for over in ("best", "final")
    for title, average in (("pooled", "pooled"), ("mean over clients", "client"))
}
TUNED = {"mu", "num_examples", "s", "server_batch"}  # free unless a claim names them
CLIP = "optimizer.clip_norm"
CLIPS = "0|100"  # 100: runs that repeat diverged ones, and their rivals
DEFAULT, PAPER = "", "paper"  # readings, in the order in which they are tried
ORDERS = ("order", "chain", "equal")  # kinds of claims about pairs


class Claim(NamedTuple):
    """A row of `claims.csv`."""

    paper: str
    place: str
    claim: str
    kind: str
    data: str
    networks: str
    left: str
    right: str
    parameters: str
    elsewhere: str
    printed: str

    @property
    def order(self) -> tuple[str, str]:
        """The kind of a claim about pairs, and the angle compared ("": accuracy)."""
        kind, _, angle = self.kind.partition(" by ")
        return kind, angle

    @property
    def sides(self) -> list["Side"]:
        """The settings that are compared."""
        return [Side.of(text) for text in self.texts]

    @property
    def texts(self) -> list[str]:
        """The sides as the ledger has them."""
        return [text for text in (self.left, *self.right.split(" | ")) if text]

    @property
    def parameter_values(self) -> dict[str, str]:
        """The fields of the parameters, with the values `a|b` that they may have."""
        return Side.of(f"any {self.parameters}").fields

    def allows(self, group: SeedGroup) -> bool:
        """Returns whether runs have the parameters."""
        return allows(self.parameter_values, group.config)

    def printed_on(self, group: SeedGroup) -> bool:
        """Returns whether runs have a data set and networks of the printed numbers."""
        of_data = self.data == "any" or dataset(group) in self.data.split("|")
        wanted = {"model.group": GROUPS.get(self.networks, self.networks)}
        alike = self.networks == "any" or matches(wanted, group.config, "")
        return of_data and alike


class Side(NamedTuple):
    """A method and the fields that a claim names."""

    method: str
    fields: dict

    @classmethod
    def of(cls, text: str) -> "Side":
        """Returns the side that a cell of the ledger describes."""
        method, *fields = text.split()
        return cls(method, dict(f.split("=") for f in fields))

    def has(self, group: SeedGroup, reading: str) -> bool:
        """Returns whether runs are of this side in a reading."""
        if group.method != self.method:
            return False
        wanted = defaults(self.method, reading)
        of_data = {"method.lam": presets.LAM}  # and gamma: those of the data set
        if self.method == "protonorm":
            of_data["method.upscale"] = presets.UPSCALE
        data = dataset(group)
        wanted = {k: of_data.get(k, {}).get(data, v) for k, v in wanted.items()}
        given = {k if "." in k else f"method.{k}": v for k, v in self.fields.items()}
        given = {CLIP: CLIPS} | given
        rest = {k: v for k, v in wanted.items() if k not in given}
        return matches(rest, group.config, "") and allows(given, group.config)


class Unit(NamedTuple):
    """A pair of runs of a claim, without their length: what counts once."""

    data: str
    setting: tuple  # fields of data and networks and the clipping, as texts
    seed: int

    @property
    def clip(self) -> float:
        """The norm at which gradients are clipped; 0: not, or named by the claim."""
        return float(dict(self.setting).get(CLIP, 0))


class Tested(NamedTuple):
    """A verdict under one statistic."""

    verdict: str
    effect: str = ""
    where: str = ""


@functools.cache
def defaults(method: str, reading: str) -> dict:
    """Returns the fields of a method in a reading."""
    fields = {f"method.{k}": v for k, v in config.method_fields(method).items()}
    fields |= READINGS.get(method, {}).get(reading, {})
    return {k: v for k, v in fields.items() if k.removeprefix("method.") not in TUNED}


def allows(given: Mapping[str, str], fields: Mapping) -> bool:
    """Returns whether fields have one of the values `a|b` that texts allow."""
    return all(
        any(_alike(fields.get(k), v) for v in texts.split("|"))
        for k, texts in given.items()
    )


def _alike(value, text: str) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) == float(text)
    return str(value) == text


def dataset(group: SeedGroup) -> str:
    """Returns the preset of a data set: `flowers102` of `npz:flowers102_32.npz`."""
    name = SPELLINGS.get(group.dataset, group.dataset)
    return name.removesuffix("_32")


def differences(
    claim: Claim, groups: Sequence[SeedGroup], reading: str, statistic: str
) -> dict[tuple[Unit, bool], float]:
    """Returns the differences of a claim, {(unit, whether on printed data): number}.

    Of several sides the smallest difference counts, of several lengths and clippings
    the `longest`.
    """
    named = {k for side in claim.sides for k in side.fields if "." in k}
    units: dict[tuple, tuple[Unit, bool]] = {}
    found = []  # by side: {(setting, seed): accuracy}
    for side in claim.sides:
        accuracies: dict[tuple, float] = {}
        for group in groups:
            if not (side.has(group, reading) and claim.allows(group)):
                continue
            fields = {k: str(v) for k, v in group.config.items() if k not in named}
            key = tuple(sorted(f for f in fields.items() if f[0][:7] != "method."))
            for seed, accuracy in compared(claim, side, group, statistic).items():
                if (key, seed) in accuracies:
                    raise UserError(f"{claim.claim} Two runs of {side} in a pair.")
                accuracies[key, seed] = accuracy
                units[key, seed] = unit_of(group, fields, seed), claim.printed_on(group)
        found.append(accuracies)
    pairs = defaultdict(list)
    for place in set.intersection(*map(set, found)):
        row = [accuracies[place] for accuracies in found]
        uppers = row if claim.order[0] == "chain" else row[:1] * len(row)
        smallest = min(a - b for a, b in zip(uppers, row[1:], strict=False))
        pairs[units[place], int(dict(place[0])["rounds"])].append(smallest)

    def kind(unit: Unit, printed: bool) -> tuple:
        return unit.data, printed, *map(dict(unit.setting).get, claim.parameter_values)

    counts = longest((kind(*at), (n, -at[0].clip), at[0].seed) for at, n in pairs)
    return {
        at: stats.fmean(pairs[at, rounds])
        for at, rounds in sorted(pairs)
        if counts[kind(*at)] == (rounds, -at[0].clip)
    }


def longest(pairs: Iterable[tuple[tuple, tuple, int]]) -> dict[tuple, tuple]:
    """Returns {kind: (rounds, -clip) that count} from those and the seed of each pair.

    They are the most rounds of which there are pairs of two seeds, or else of one; of
    as many rounds, those without clipping.
    """
    seeds = defaultdict(set)
    for kind, length, seed in pairs:
        seeds[kind, length].add(seed)
    ranked = sorted(seeds, key=lambda at: (len(seeds[at]) > 1, at[1]))
    return dict(ranked)  # the last of a kind stays


def compared(
    claim: Claim, side: Side, group: SeedGroup, statistic: str
) -> dict[int, float]:
    """Returns {seed: accuracy in %, or angle between the last global prototypes}."""
    _, angle = claim.order
    if not angle:
        is_refprotofl = claim.paper == PAPERS["refprotofl"]
        rules = ["head" if is_refprotofl else RULES.get(side.method, "head")]
        if any(one.method in WITHOUT_HEAD for one in claim.sides):
            rules.insert(0, "received")
        found = (values(group, rule, *STATISTICS[statistic]) for rule in rules)
        return next((by_seed for by_seed in found if by_seed), {})
    last = {run.config["seed"]: run.evaluations()[-1] for run in group.finished}
    return {seed: record[angle] for seed, record in last.items() if angle in record}


def unit_of(group: SeedGroup, fields: Mapping[str, str], seed: int) -> Unit:
    """Returns the unit of a run, which runs of other lengths share."""
    own = {k: v for k, v in fields.items() if k.startswith(("data.", "model.", CLIP))}
    if own["data.seed"] == str(FOLLOW):
        own["data.seed"] = str(seed)
    return Unit(dataset(group), tuple(sorted(own.items())), seed)


def enough(by_unit: Mapping[Unit, float]) -> bool:
    """Returns whether there are pairs of two seeds."""
    return len({unit.seed for unit in by_unit}) > 1


def deciding(
    claim: Claim, groups: Sequence[SeedGroup], statistic: str
) -> tuple[dict[Unit, float], str]:
    """Returns the differences that decide, and a note on their origin.

    For each reading, the pairs on the paper's data are tried first, then those on all
    data. The first set with two seeds decides, or else the largest.
    """
    options = []
    for reading in (DEFAULT, PAPER):
        note = f", reading `{reading}`" * bool(reading)
        by_place = differences(claim, groups, reading, statistic)
        on_paper = {unit: d for (unit, printed), d in by_place.items() if printed}
        options.append((on_paper, note))
        if len(on_paper) < len(by_place) and claim.elsewhere != "no":
            on_all = {unit: d for (unit, _), d in by_place.items()}
            options.append((on_all, f"{note}, other data or networks"))
    largest = max(options, key=lambda option: len(option[0]))
    return next((option for option in options if enough(option[0])), largest)


def spread(by_unit: Mapping[Unit, float]) -> float:
    """Returns the deviation of pairs about the mean of their data set."""
    by_data = defaultdict(list)
    for unit, difference in by_unit.items():
        by_data[unit.data].append(difference)
    free = len(by_unit) - len(by_data)
    if not free:
        return stats.stdev(by_unit.values())
    return (sum(len(d) * stats.pvariance(d) for d in by_data.values()) / free) ** 0.5


def decide(by_unit: Mapping[Unit, float]) -> str:
    """Returns the verdict on `left above right` from two differences or more."""
    points = [*by_unit.values()]
    mean, error = stats.fmean(points), spread(by_unit) / len(points) ** 0.5
    for sign, verdict in ((1, SHOWN), (-1, CONTRADICTED)):
        agree = sum(sign * d > 0 for d in points)
        if sign * mean > 2 * error and agree >= 0.75 * len(points):
            return verdict
    return LEVEL


def of_records(claim: Claim, groups: Sequence[SeedGroup], statistic: str) -> Tested:
    """Returns the verdict of runs on an order."""
    by_unit, note = deciding(claim, groups, statistic)
    if not enough(by_unit):
        reason = by_unit and f"one seed only: {count(by_unit)}{note}"
        return Tested(NOT_RUN, where=reason or missing(claim, groups))
    verdict = decide(by_unit)
    if claim.order[0] == "equal":
        verdict = {LEVEL: SHOWN}.get(verdict, CONTRADICTED)
    effect = f"{stats.fmean(by_unit.values()):+.2f} ± {spread(by_unit):.2f}"
    where = [count(by_unit) + note, *values_without(claim, by_unit)]
    where += diverged(claim, groups, by_unit)
    return Tested(verdict, effect, ", ".join(where))


def values_without(claim: Claim, by_unit: Iterable[Unit]) -> Iterator[str]:
    """Yields the numbers that a claim names and no pair has."""
    for key, texts in claim.parameter_values.items():
        found = {dict(unit.setting)[key] for unit in by_unit}
        numbers = [x for x in texts.split("|") if x[0].isdigit()]
        absent = [x for x in numbers if not any(float(x) == float(y) for y in found)]
        if absent:
            yield f"no pair with {key} {' and '.join(absent)}"


def diverged(
    claim: Claim, groups: Sequence[SeedGroup], by_unit: Iterable[Unit]
) -> Iterator[str]:
    """Yields how many runs of each side diverged on the data of the pairs."""
    on = {unit.data for unit in by_unit}
    for text, side in zip(claim.texts, claim.sides, strict=True):
        of_side = [g for g in runs_of(claim, side, groups) if dataset(g) in on]
        if number := sum(len(g.runs) - len(g.finished) for g in of_side):
            yield f"{number} diverged of `{text}`"


def runs_of(claim: Claim, side: Side, groups: Sequence[SeedGroup]) -> list[SeedGroup]:
    """Returns the runs of a side that a claim allows, ended or diverged."""
    return [
        group
        for group in groups
        if any(side.has(group, reading) for reading in (DEFAULT, PAPER))
        and claim.allows(group)
        and (claim.elsewhere != "no" or claim.printed_on(group))
    ]


def missing(claim: Claim, groups: Sequence[SeedGroup]) -> str:
    """Returns which runs a claim lacks, or which of its runs diverged."""
    absent, failed = list[str](), list[str]()
    for text, side in zip(claim.texts, claim.sides, strict=True):
        of_side = runs_of(claim, side, groups)
        if not any(group.finished for group in of_side):
            (failed if of_side else absent).append(f"`{text}`")
    where = f" with `{claim.parameters}`" * bool(claim.parameters)
    where += f" on {claim.data}, {claim.networks}" * (claim.elsewhere == "no")
    if absent:
        return f"no run of {' and '.join(absent)}{where}"
    if failed:
        return f"all runs of {' and '.join(failed)}{where} diverged"
    return "no two runs of equal setting and length"


def of_iterations(claim: Claim, groups: Sequence[SeedGroup]) -> Tested:
    """Returns the verdict on fewer iterations in the last tenth of the rounds."""
    fewer = defaultdict(list)
    for group in groups:
        for run in group.finished if claim.sides[0].has(group, DEFAULT) else ():
            _, row = pictures.every_round(run.evaluations(), "alignment_iterations")
            tenth = max(1, len(row) // 10)
            if row:
                unit = Unit(dataset(group), (), run.config["seed"])
                drop = stats.fmean(row[:tenth]) - stats.fmean(row[-tenth:])
                fewer[unit].append(drop)
    by_unit = {unit: stats.fmean(fewer[unit]) for unit in sorted(fewer)}
    if not enough(by_unit):
        return Tested(NOT_RUN, where=missing(claim, groups))
    mean = stats.fmean(by_unit.values())
    effect = f"{mean:.1f} ± {spread(by_unit):.1f} fewer"
    return Tested(decide(by_unit), "", f"{effect}: {count(by_unit)}")


def count(by_unit: Iterable[Unit]) -> str:
    """Returns the number of pairs by data set and clipping."""
    numbers = Counter((unit.data, unit.clip) for unit in by_unit)
    return ", ".join(
        f"{data} {number}" + f" (gradients clipped at {clip:g})" * bool(clip)
        for (data, clip), number in numbers.items()
    )
