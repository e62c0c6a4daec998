"""The ledger of claims: verdicts from records and formulas, and the committed page."""

import re

import pytest
from support import workdirs
from support.every import check_every
from support.runs import ROOT

from jaxproto import config
from results import claim_pairs as pairs
from results import claims, formula_claims

BEST, FINAL = "best, pooled", "final, mean over clients"


def claim(left="fedtgp", right="fedproto", kind="order", **other):
    row = dict.fromkeys(pairs.Claim._fields, "")
    row |= {"data": "cifar10", "networks": "Ht0", "paper": "TinyProto"}
    return pairs.Claim(**row | {"left": left, "right": right, "kind": kind} | other)


def two(*differences, rounds=300, **fields):
    """Runs of FedTGP and FedProto for seeds 0, 1, ... with these differences."""
    fields, made = {"rounds": rounds, **fields}, []
    for seed, difference in enumerate(differences):
        made.append(("fedtgp", seed, 0.5 + difference, fields))
        made.append(("fedproto", seed, 0.5, fields))
    return made


def without_pair(**fields):
    runs = two(0.1, 0.1)
    runs[::2] = [(*run[:3], {**run[3], **fields}) for run in runs[::2]]
    return runs


# The most rounds that two seeds have on a data set count.
SHORT = *two(0.03, 0.02, 0.04, rounds=20), *two(0.09, rounds=20, data__clients=50)
LENGTHS = [*two(0.01, 0.02), *SHORT]
ONE_LONGER = [*two(0.05), *two(0.01, 0.02, rounds=20)]
CLIPPED = two(0.02, 0.03, optimizer__clip_norm=100.0)
NONE, APART = pairs.NOT_RUN, "no two runs of equal setting and length"
# Other verdicts, angles, FAST, readings, other data: in the committed page.
VERDICTS = [  # runs, verdict, effect, and where
    (two(0.02, 0.03, 0.025), pairs.SHOWN, "+2.50 ± 0.50", "cifar10 3"),
    (LENGTHS, pairs.SHOWN, "+1.50 ± 0.71", "cifar10 2"),
    (ONE_LONGER, pairs.SHOWN, "+1.50 ± 0.71", "cifar10 2"),
    (without_pair(rounds=20), NONE, "", APART),
    (without_pair(status="diverged"), NONE, "", "of `fedtgp` diverged"),
    (without_pair(optimizer__clip_norm=100.0), NONE, "", APART),
    ([*CLIPPED, *two(0.01, 0.02, rounds=20)], pairs.SHOWN, "+2.50", "2 (gradients cl"),
    ([*CLIPPED, *two(0.01, 0.02)], pairs.SHOWN, "+1.50 ± 0.71", "cifar10 2"),
]


def test_a_verdict_is_sign_and_size_of_pairs_of_equal_settings(tmp_path):
    def check(number, runs, verdict, effect, where):
        root = tmp_path / str(number)
        for i, (method, seed, accuracy, fields) in enumerate(runs):
            given = {"rules": ("global", "head"), **workdirs.AS_PRINTED, **fields}
            workdirs.folder(root / str(i), method, seed, accuracy, **given)
        tested = claims.test(claim(), claims.read_runs([root]))
        for statistic in (BEST, FINAL):
            found = tested[statistic]
            assert found.verdict == verdict and found.effect.startswith(effect), found
            assert where in found.where, found

    check_every([(number, *row) for number, row in enumerate(VERDICTS)], check)


def test_what_no_pair_shows_is_named(tmp_path):
    """With alpha 0.5 FedTGP diverged."""
    for alpha, status in (("0.1", "finished"), ("0.5", "diverged")):
        for i, (method, seed, accuracy, fields) in enumerate(two(0.1, 0.1)):
            given = {"rules": ("global",), **workdirs.AS_PRINTED, **fields}
            ended = status if method == "fedtgp" else "finished"
            given |= {"data__alpha": float(alpha), "status": ended}
            workdirs.folder(tmp_path / alpha / str(i), method, seed, accuracy, **given)
    about = claim(parameters="data.alpha=0.1|0.5|1.0")
    runs = claims.read_runs(sorted(tmp_path.iterdir()))
    where = "cifar10 2, no pair with data.alpha 0.5 and 1.0, 2 diverged of `fedtgp`"
    assert claims.test(about, runs)[BEST].where == where


def test_printed_costs_that_are_not_those_of_the_formulas_are_contradicted():
    """Those that are, and alignments: in the committed page."""
    cost = claim("fedproto", "", "cost", data="cifar10|cifar100", printed="0.15|2.00")
    ratio = claim("tinyproto s=50", "fedproto", "ratio", printed="12")
    for about in (cost, ratio):
        assert claims.of_formulas(about).verdict == pairs.CONTRADICTED


def test_every_claim_cites_its_place_and_names_settings_that_exist():
    fields = config.flatten(config.default_config()).keys()

    def check(*row):
        about = pairs.Claim(*row)
        assert re.search(r"Table|Figure|Section|Abstract|Appendix", about.place)
        for side in about.sides if about.kind not in formula_claims.ALIGNED else ():
            own = config.method_fields(side.method)
            assert {k for k in side.fields if "." not in k} <= own.keys()
            named = {k for k in side.fields if "." in k}
            assert named <= fields
            assert named == {k for k in about.sides[0].fields if "." in k}

    check_every(claims.ledger(), check)
    rows = [about[:1] + about[2:] for about in claims.ledger()]
    assert len(set(rows)) == len(rows)


def test_the_readme_quotes_the_counts_of_the_page():
    text, page = (ROOT / "README.md").read_text(), claims.PAGE.read_text()
    rows = re.findall(r"^\| all \| best, ([\w ]+) \| (.*) \|$", page, re.M)
    assert [name for name, _ in rows] == ["pooled", "mean over clients"]
    total, shown, level, contradicted, not_run, _ = rows[0][1].split(" | ")
    assert f"We tested {total} statements of" in text
    assert f"| the same order, clearly | {shown} |" in text
    assert f"| no clear difference | {level} |" in text
    assert f"| the opposite order, clearly | {contradicted} |" in text
    assert f"| not tested yet | {not_run} |" in text
    by_paper = dict(re.findall(r"^\| (\w+) \| best, pooled \| (.*) \|$", page, re.M))
    named = [by_paper[name].split(" | ")[3] for name in ("RefProtoFL", "TinyProto")]
    said = "Of the {}, {} are about RefProtoFL and {} about TinyProto"
    assert said.format(contradicted, *named) in text


@pytest.mark.long
def test_the_committed_page_is_what_the_command_writes(tmp_path):
    page, table = tmp_path / "claims.md", tmp_path / "claims.csv"
    claims.main(["--out", str(page), "--table", str(table)])
    assert page.read_text() == claims.PAGE.read_text()
    assert table.read_text() == claims.TABLE.read_text()


def test_the_headlines_are_claims():
    there = {(claim.paper, claim.claim) for claim in claims.ledger()}
    assert claims.headlines() and claims.headlines() <= there
