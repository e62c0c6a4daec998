"""Tests the claims of the papers, `claims.csv`, against records of runs.

    python -m results.claims [RECORDS...] [--out docs/claims.md] [--table FILE]

RECORDS are folders of runs, or folders that hold such; by default those of
`results/*/records`. The page explains the rule and has the claims of `headlines.csv`;
the table, `claim_verdicts.csv`, has all. Columns of `claims.csv`:

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

from jaxproto.lab.compare import SeedGroup, group_by_seed
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
TABLE = RESULTS / "claim_verdicts.csv"
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

What the four papers claim ("A is above B"), and what the records of this repository
say. `python -m results.claims` makes this page and `results/claim_verdicts.csv`, which
has every claim, all four statistics, and the runs that decide.

A claim is tested on pairs of runs with equal data, partition, networks, rounds and
seed; the difference of their accuracies, in points, counts. It is

- **shown**, if the difference has the claimed sign in at least three quarters of the
  pairs, and its mean exceeds two standard errors;
- **contradicted**, if the same holds of the opposite sign;
- **level**, if neither holds;
- **not run**, if there are fewer than two seeds.

A contradicted claim need not be a mistake of the paper: most runs here are shorter than
the papers', and many have other data or smaller networks
([reasons](results.md#contradicted)).

"""
RULES = """
## How a claim is tested

- Of the pairs on a data set, those with the most rounds that two seeds have count, for
  the paper's networks and for each value that a claim names. Pairs may differ in what
  a claim does not name. If it compares with several settings, the smallest difference
  counts.
- Pairs on a data set and networks of the paper decide; with fewer than two seeds, all
  data do, unless the claim names data or networks.
- Methods are judged by the rule of their paper ([decisions](decisions.md#judged)), at
  the best round, as the papers print it. The default variant counts, or `paper` where
  the default has too few seeds. Gradients are clipped in both runs or in neither.
- The standard error is the deviation of pairs about the mean of their data set, divided
  by the root of their number. Points are mean ± deviation.
- A run that diverged makes no pair. Costs and alignments are computed for three
  partitions or seeds: shown means all within 5 % or the printed digits.
- The records of Fashion-MNIST and CIFAR share one partition each, so they say nothing
  of other partitions.
"""


def headlines() -> set[tuple[str, str]]:
    """Returns paper and sentence of the claims that the page shows."""
    text = (RESULTS / "headlines.csv").read_text()
    return {(row["paper"], row["claim"]) for row in csv.DictReader(text.splitlines())}


def page(found: Sequence[tuple[Claim, Mapping[str, Tested]]]) -> str:
    """Returns the page of claims."""
    shown = headlines()
    rows = [line(c, t) for c, t in found if (c.paper, c.claim) in shown]
    title = ["paper", "claim", "place", "printed", "verdict", "points here"]
    intro = "\n## The main claims\n\nBy the pooled accuracy of the best round.\n\n"
    return HEAD + counts(found) + intro + table(title, rows) + RULES


def write_table(
    found: Sequence[tuple[Claim, Mapping[str, Tested]]], path: Path
) -> None:
    """Writes all claims with the verdict under every statistic."""
    kinds = [f"{s}: {what}" for s in STATISTICS for what in ("verdict", "points")]
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["paper", "place", "claim", "printed", *kinds, "runs or reason"])
        for claim, tested in found:
            cells = [cell for t in tested.values() for cell in (t.verdict, t.effect)]
            about = [claim.paper, claim.place, claim.claim, printed(claim)]
            rows.writerow([*about, *cells, where(tested)])


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


def printed(claim: Claim) -> str:
    """Returns the printed difference of a claim about two methods."""
    return claim.printed if claim.order[0] in ("order", "equal") else ""


def where(tested: Mapping[str, Tested]) -> str:
    """Returns the runs that decide, or the reason why there are none."""
    return "; ".join(dict.fromkeys(t.where for t in tested.values()))


def line(claim: Claim, tested: Mapping[str, Tested]) -> list[str]:
    """Returns the cells of a claim."""
    best = tested["best, pooled"]
    about = [claim.paper, claim.claim, claim.place, printed(claim)]
    return [*about, best.verdict, best.effect]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    escaped = (" | ".join(x.replace("|", "\\|") for x in row) for row in lines)
    return "".join(f"| {row} |\n" for row in escaped)


def main(argv: Sequence[str]) -> None:
    """Writes the page and the table."""
    parser = argparse.ArgumentParser(prog="python -m results.claims")
    parser.add_argument(
        "records", nargs="*", type=Path, help="default: results/*/records"
    )
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--table", type=Path, default=TABLE)
    args = parser.parse_args(argv)
    groups = read_runs(args.records or records.all_series())
    found = [(claim, test(claim, groups)) for claim in ledger()]
    args.out.write_text(page(found))
    write_table(found, args.table)


if __name__ == "__main__":
    main(sys.argv[1:])
