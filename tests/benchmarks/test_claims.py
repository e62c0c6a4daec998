"""The ledger of claims: verdicts from records and formulas, and the committed page."""

import re
from pathlib import Path

import pytest
from support import workdirs
from support.every import check_every

from jaxproto import config
from jaxproto.methods import METHODS
from results import claim_pairs as pairs
from results import claims, formula_claims

ROOT = Path(__file__).parents[2]
BEST, FINAL = "best, pooled", "final, mean over clients"


def claim(left="fedtgp", right="fedproto", kind="order", **other):
    """A claim about CIFAR-10 with Ht0."""
    row = dict.fromkeys(pairs.Claim._fields, "")
    row |= {"data": "cifar10", "networks": "Ht0", "paper": "TinyProto"}
    return pairs.Claim(**row | {"left": left, "right": right, "kind": kind} | other)


@pytest.fixture
def verdict(tmp_path):
    """Writes runs, (method, seed, accuracy, fields) each, and tests a claim."""

    def tested(about, *runs, statistic=BEST):
        for i, (method, seed, accuracy, fields) in enumerate(runs):
            at = tmp_path / str(i)
            given = {"rules": ("global", "head"), **workdirs.AS_PRINTED, **fields}
            workdirs.folder(at, method, seed, accuracy, **given)
        return claims.test(about, claims.read_runs([tmp_path]))[statistic]

    return tested


def two(*differences, rounds=300, **fields):
    """Runs of FedTGP and FedProto for seeds 0, 1, ... with these differences."""
    fields = {"rounds": rounds, **fields}
    return [
        run
        for seed, difference in enumerate(differences)
        for run in (
            ("fedtgp", seed, 0.5 + difference, fields),
            ("fedproto", seed, 0.5, fields),
        )
    ]


@pytest.mark.parametrize(
    ("differences", "expected", "effect"),
    [
        ((0.02, 0.03, 0.025), pairs.SHOWN, "+2.50 ± 0.50"),
        ((-0.02, -0.03), pairs.CONTRADICTED, "-2.50 ± 0.71"),
        ((0.02, -0.01), pairs.LEVEL, "+0.50 ± 2.12"),
        ((0.01, 0.01, 0.1), pairs.LEVEL, "+4.00 ± 5.20"),  # within two errors
        ((0.03, 0.03, 0.03, -0.001, -0.001), pairs.LEVEL, "+1.76 ± 1.70"),
    ],
)
def test_a_verdict_is_sign_and_size_of_the_pairs(
    differences, expected, effect, verdict
):
    found = verdict(claim(), *two(*differences))
    assert found == (expected, effect, f"cifar10 {len(differences)}")


def test_level_shows_a_claim_that_two_are_level(verdict):
    assert verdict(claim(kind="equal"), *two(0.02, -0.02)).verdict == pairs.SHOWN


def test_a_difference_contradicts_a_claim_that_two_are_level(verdict):
    found = verdict(claim(kind="equal"), *two(0.02, 0.02), statistic=FINAL)
    assert found.verdict == pairs.CONTRADICTED


def test_without_two_seeds_a_claim_is_not_run_whatever_the_lengths(verdict):
    runs = [*two(0.1), *two(0.1, rounds=20)]
    found = verdict(claim(), *runs)
    assert found == (pairs.NOT_RUN, "", "one seed only: cifar10 1")


def test_lengths_of_one_seed_count_once_with_their_mean(verdict):
    runs = [*two(0.01, 0.02), *two(0.03, 0.02, rounds=20)]
    assert verdict(claim(), *runs) == (pairs.SHOWN, "+2.00 ± 0.00", "cifar10 2")


@pytest.mark.parametrize("fields", [{"rounds": 20}, {"optimizer__clip_norm": 9.0}])
def test_only_equal_settings_and_lengths_are_compared(fields, verdict):
    runs = two(0.1, 0.1)
    runs[::2] = [(*run[:3], {**run[3], **fields}) for run in runs[::2]]
    found = verdict(claim(), *runs)
    assert found == (pairs.NOT_RUN, "", "no two runs of equal setting and length")


def test_a_missing_side_is_named(verdict):
    found = verdict(claim(parameters="data.alpha=0.1"), *two(0.1, 0.1)[1::2])
    assert found.where == "no run of `fedtgp` with `data.alpha=0.1`"
    assert found.verdict == pairs.NOT_RUN


def test_other_data_decide_where_the_claim_allows_it(verdict):
    found = verdict(claim(data="cifar100"), *two(0.1, 0.2))
    assert found.where == "cifar10 2, other data or networks"
    found = claims.test(claim(data="cifar100", elsewhere="no"), ())[BEST]
    assert found.verdict == pairs.NOT_RUN


def test_a_named_network_or_data_set_is_tested_on_no_other(verdict):
    found = verdict(claim(networks="ResNet-18", elsewhere="no"), *two(0.1, 0.2))
    assert found.verdict == pairs.NOT_RUN
    assert "on cifar10, ResNet-18" in found.where


def test_the_paper_reading_decides_only_without_the_default_one(verdict):
    paper = {"method__reg": "l2_of_means", "method__lam": 1.0}
    runs = two(-0.1, -0.1, **paper)
    assert verdict(claim(), *runs).where == "cifar10 2, reading `paper`"


def test_a_chain_is_as_good_as_its_smallest_step(verdict):
    about = claim(
        "fedproto data.alpha=0.1",
        "fedproto data.alpha=0.5 | fedproto data.alpha=1.0",
        kind="chain",
    )
    accuracies = {0.1: 0.9, 0.5: 0.6, 1.0: 0.55}
    runs = [
        ("fedproto", seed, accuracy, {"data__alpha": alpha})
        for seed in (0, 1)
        for alpha, accuracy in accuracies.items()
    ]
    assert verdict(about, *runs)[:2] == (pairs.SHOWN, "+5.00 ± 0.00")


def test_protonorm_has_the_gamma_of_the_data_set_unless_the_claim_names_one(
    verdict, tmp_path
):
    runs = [
        (method, seed, accuracy, fields)
        for seed in (0, 1)
        for method, accuracy, fields in (
            ("protonorm", 0.8, {"method__upscale": 100.0}),
            ("protonorm", 0.2, {"method__upscale": 1.0}),
            ("fedproto", 0.5, {}),
        )
    ]
    assert verdict(claim("protonorm"), *runs).effect == "+30.00 ± 0.00"
    groups = claims.read_runs([tmp_path])
    named = claims.test(claim("protonorm upscale=1"), groups)[BEST]
    assert named.effect == "-30.00 ± 0.00"


def test_costs_are_those_of_the_formulas():
    right = claim("fedproto", "", "cost", data="cifar10|cifar100", printed="0.15|1.46")
    assert claims.of_formulas(right).verdict == pairs.SHOWN
    wrong = right._replace(printed="0.15|2.00")
    assert claims.of_formulas(wrong).verdict == pairs.CONTRADICTED
    tenth = claim("tinyproto s=50", "fedproto", "ratio", printed="10")
    assert claims.of_formulas(tenth).verdict == pairs.SHOWN
    twelfth = tenth._replace(printed="12")
    assert claims.of_formulas(twelfth).verdict == pairs.CONTRADICTED


def test_the_alignment_spreads_few_prototypes_to_the_optimum():
    few, many = (formula_claims.alignment(K, 512, 0) for K in (10, 100))
    assert few["after"] > few["before"] and few["smallest"] > many["smallest"]
    assert formula_claims.aligned("optimal", 10, 512, [0])[0] == [True]
    assert formula_claims.aligned("optimal", 100, 512, [0])[0] == [False]


def test_every_claim_cites_its_place_and_names_settings_that_exist():
    kinds = {*formula_claims.ALIGNED, "order", "chain", "equal", "cost", "ratio"}
    fields = config.flatten(config.default()).keys()

    def check(*row):
        about = pairs.Claim(*row)
        assert re.search(r"Table|Figure|Section|Abstract|Appendix", about.place)
        assert about.kind in kinds | {"iterations", "open"}
        assert about.claim.endswith(".") and about.data and about.networks
        for side in about.sides if about.kind not in formula_claims.ALIGNED else ():
            assert side.method in METHODS
            own = config.method_fields(side.method)
            assert {k for k in side.fields if "." not in k} <= own.keys()
            named = {k for k in side.fields if "." in k}
            assert named <= fields
            assert named == {k for k in about.sides[0].fields if "." in k}
        assert (about.kind == "open") == (not about.left)
        assert about.printed or about.kind != "open"

    check_every(claims.ledger(), check)
    rows = [about[:1] + about[2:] for about in claims.ledger()]
    assert len(set(rows)) == len(rows)


def test_the_readme_quotes_the_counts_of_the_page():
    text = (ROOT / "README.md").read_text()
    rows = re.findall(
        r"^\| all \| best, ([\w ]+) \| (.*) \|$", claims.PAGE.read_text(), re.M
    )
    assert [name for name, _ in rows] == ["pooled", "mean over clients"]
    for _, cells in rows:
        total, shown, level, contradicted, not_run, computed = cells.split(" | ")
        assert f"{shown} shown, {level} level, {contradicted} contradicted" in text
    assert f"{total} claims" in text and f"{not_run} not run" in text
    assert f"({computed} on costs" in text


@pytest.mark.long
def test_the_committed_page_is_what_the_command_writes(tmp_path):
    claims.main(["--out", str(tmp_path / "claims.md")])
    assert (tmp_path / "claims.md").read_text() == claims.PAGE.read_text()
