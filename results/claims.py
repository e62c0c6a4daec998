"""Tests the claims of the papers, `claims.csv`, against records of runs.

    python -m results.claims [RECORDS...] [--out docs/claims.md]

RECORDS are folders of runs, or folders that hold such; by default those of
`results/*/records`. The page explains the rule. Columns of `claims.csv`:

- kind: `order`, left above each of right; `chain`, left above right and each of right
  above the next; `equal`, left level with right; these three ` by smallest_angle` or
  ` by mean_angle` compare angles between global prototypes after the last round, in
  degrees, else accuracies; `cost`, millions of scalars per round;
  `ratio`, cost of right over cost of left; `iterations`, `nearer`, `optimal` and
  `short of optimal` of the alignment; `open`, no command tests it yet.
- left, right: a method and its fields, `tinyproto base=fedtgp s=50`; right may hold
  several, separated by ` | `. A field with a dot is one of the configuration, and may
  differ between the sides. Other fields of the method are those of the reading.
- data, networks: of the printed numbers; `any` where the paper names none.
- parameters: fields that the runs of both sides have; `a|b` allows several values.
- elsewhere: `no` where the sentence names data or networks: others do not count.
- printed: the paper's difference in points, cost, ratio or, of `open`, what is missing.
"""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jaxproto.reporting.compare import SeedGroup, group_by_seed
from jaxproto.storage.run_folder import RunFolder, run_folders
from results import claim_pairs as pairs
from results import formula_claims as formulas
from results import records
from results.claim_pairs import (
    CONTRADICTED,
    LEVEL,
    NOT_RUN,
    SHOWN,
    STATISTICS,
    Claim,
    Tested,
)

RESULTS = Path(__file__).parent
PAGE = RESULTS.parent / "docs" / "claims.md"
FORMULAS = {*formulas.ALIGNED, "cost", "ratio"}  # kinds that need no run
VERDICTS = (SHOWN, LEVEL, CONTRADICTED, NOT_RUN)


def of_formulas(claim: Claim) -> Tested:
    """Returns the verdict of formulas and kernels, for three partitions or seeds."""
    if claim.kind in formulas.ALIGNED:
        shape = pairs.Side.of(claim.left).fields
        right, effect = formulas.aligned(claim.kind, int(shape["K"]), int(shape["d"]))
        where = f"random prototypes {len(right)}"
    else:
        right, effect = formulas.costs(claim)
        where = f"partitions {len(formulas.PARTITIONS)}"
    verdict = SHOWN if all(right) else LEVEL if any(right) else CONTRADICTED
    return Tested(verdict, "", f"{effect}: {where}")


def test(claim: Claim, groups: Sequence[SeedGroup]) -> dict[str, Tested]:
    """Returns the verdict under every statistic."""
    if claim.order[0] in pairs.ORDERS:
        return {s: pairs.of_records(claim, groups, s) for s in STATISTICS}
    if claim.kind == "open":
        tested = Tested(NOT_RUN, where=claim.printed)
    elif claim.kind == "iterations":
        tested = pairs.of_iterations(claim, groups)
    else:
        tested = of_formulas(claim)
    return dict.fromkeys(STATISTICS, tested)


def ledger() -> list[Claim]:
    """Returns the claims of the papers."""
    text = (RESULTS / "claims.csv").read_text()
    return [Claim(**row) for row in csv.DictReader(text.splitlines())]


def read_runs(paths: Iterable[Path]) -> tuple[SeedGroup, ...]:
    """Returns the ended runs in folders, or in the folders directly inside them.

    Runs in bfloat16 are left out: each repeats one in float32.
    """
    runs = (RunFolder.read(run) for path in paths for run in run_folders(path))
    wanted = (r for r in runs if r.config.get("model.compute_dtype") != "bfloat16")
    return group_by_seed(run for run in wanted if run.status().ended)


HEAD = """# Claims of the papers

Orders and numbers that the four papers claim, and what the records of this repository
say. `python -m results.claims` makes this page from `results/claims.csv`
and `results/*/records`.

**A pair** is two runs of equal data set, partition, networks, number of rounds and
seed; the difference of their accuracies in points counts. Of the pairs on a data set,
only those with the most rounds that two seeds have count; the number of rounds is
chosen separately for the paper's networks and for each value that a claim names, such
as alpha. Pairs may differ in what a claim does not name, such as d or the number of
clients: each counts. If a claim compares with several settings, the smallest difference
counts. Where a claim is about the similarity or the separation of prototypes, angles
between global prototypes after the last round are compared instead, in degrees. A claim
is

- **shown**, if the difference has the claimed sign in at least three quarters of the
  pairs, and its mean exceeds two standard errors;
- **contradicted**, if the same holds of the opposite sign;
- **level**, if neither holds;
- **not run**, if the pairs have fewer than two seeds; the last column has the reason.

The standard error is the deviation of pairs about the mean of their data set, divided
by the root of their number; the effect is mean ± deviation. A claim that two settings
are level is shown by "level". A claim about costs or the alignment is computed for
three partitions or seeds: all as claimed (within 5 % or the printed digits) is shown,
some is level, none contradicted.

The decisive pairs are those on a data set and networks of the paper, or, if there are
fewer than two seeds, those on all data: then the last column says "other data or
networks". A claim that names data or networks is tested on no others. A run that
diverged makes no pair: the last column counts such runs on the data of the pairs, and
names the numbers of a claim that no pair has. Runs have the default reading of their
method, or, without two such seeds, the reading `paper`. Gradients are clipped in both
runs of a pair or in neither; of pairs of equal length those without clipping count.
Methods are judged by the rule of their paper ([decisions](decisions.md#judged)); in a
pair with FAST, whose clients keep no network of their own, both by `received`, where
the other has that rule. The papers print the best round. The earlier records of
Fashion-MNIST and CIFAR share one partition each, so that their pairs say nothing of
other partitions. Most runs are shorter than the papers'. The reasons of contradicted
claims, where runs show one: [results](results.md#contradicted).
"""


def page(claims: Sequence[Claim], groups: Sequence[SeedGroup]) -> str:
    """Returns the page of claims."""
    found = [(claim, test(claim, groups)) for claim in claims]
    parts = [HEAD, counts(found)]
    for paper in dict.fromkeys(claim.paper for claim in claims):
        rows = [line(c, t) for c, t in found if c.paper == paper]
        title = ["claim", "place", "printed", *STATISTICS, "pairs, or the reason"]
        parts.append(f"## {paper}\n\n" + table(title, rows))
    return "\n".join(parts)


def counts(found: Sequence[tuple[Claim, Mapping[str, Tested]]]) -> str:
    """Returns the table of verdicts by paper and statistic, best round."""
    rows = []
    papers = [*dict.fromkeys(claim.paper for claim, _ in found), "all"]
    for paper, statistic in ((p, s) for p in papers for s in STATISTICS if "best" in s):
        chosen = [(c, t) for c, t in found if paper in (c.paper, "all")]
        number = Counter(t[statistic].verdict for _, t in chosen)
        computed = sum(c.kind in FORMULAS for c, _ in chosen)
        numbers = [len(chosen), *(number[v] for v in VERDICTS), computed]
        rows.append([paper, statistic, *map(str, numbers)])
    return table(
        ["paper", "statistic", "claims", *VERDICTS, "of all by formulas"], rows
    )


def line(claim: Claim, tested: Mapping[str, Tested]) -> list[str]:
    """Returns the cells of a claim."""
    cells = [f"{t.verdict} {t.effect}".strip() for t in tested.values()]
    where = dict.fromkeys(t.where for t in tested.values())
    printed = claim.printed if claim.order[0] in ("order", "equal") else ""
    return [claim.claim, claim.place, printed, *cells, "; ".join(where)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    escaped = (" | ".join(x.replace("|", "\\|") for x in row) for row in lines)
    return "".join(f"| {row} |\n" for row in escaped)


def main(argv: Sequence[str]) -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(prog="python -m results.claims")
    parser.add_argument(
        "records", nargs="*", type=Path, help="default: results/*/records"
    )
    parser.add_argument("--out", type=Path, default=PAGE)
    args = parser.parse_args(argv)
    groups = read_runs(args.records or records.all_series())
    args.out.write_text(page(ledger(), groups))


if __name__ == "__main__":
    main(sys.argv[1:])
