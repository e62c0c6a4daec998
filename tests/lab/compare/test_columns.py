"""Columns that users add to a comparison: marks, p, ranks, targets, metrics; LaTeX."""

import itertools
import re

import numpy as np
import pytest
from scipy import stats
from support.refusal import refused
from support.workdirs import AS_PRINTED, cells_of, folder, made, record

from jaxproto.experiment.display_names import display_name, method_of_title
from jaxproto.lab import compare
from jaxproto.lab.compare import latex, run_groups, significance
from jaxproto.methods import METHODS
from jaxproto.metrics import metrics_by_name
from jaxproto.papers import cells
from jaxproto.storage import records
from jaxproto.summary import metric_record

FINAL = {"statistics": ["final"], "columns": ["metric"]}


def series(tmp_path, method, accuracies, **fields):
    start, seeds = f"{method}{len(fields)}", enumerate(accuracies)
    return [folder(tmp_path / f"{start}-{s}", method, s, a, **fields) for s, a in seeds]


@pytest.fixture
def three(tmp_path):
    """FedProto; ProtoNorm, which is 2, 3 and 4 points above; FedTGP, -1, 0, 1."""
    return [
        *series(tmp_path, "fedproto", (0.50, 0.60, 0.70)),
        *series(tmp_path, "protonorm", (0.52, 0.63, 0.74)),
        *series(tmp_path, "fedtgp", (0.49, 0.60, 0.71)),
    ]


def test_methods_have_the_names_of_printed_tables():
    parts = ["fedtgp", "block", "sum", "cpkd"]
    for name, (base, masks, scaling, distill), shown in (
        ("mine", parts, "mine on fedtgp"),
        ("cps_ppa_cpkd", parts, "FedTGP + CPS + PPA + CPKD"),
        ("cps_ppa_cpkd", ["fedtgp", "none", *parts[2:]], "FedTGP + PPA + CPKD"),
    ):
        given = {"method.name": name, "method.base": base, "method.masks": masks}
        given |= {"method.scaling": scaling, "method.distill": distill}
        assert display_name(given) == shown
    titles = [display_name({"method.name": name}) for name in METHODS]
    assert len({*titles}) == len(METHODS) and not {*titles} & {*METHODS}
    assert [method_of_title(title) for title in titles] == [*METHODS]
    for row in cells.published_numbers():
        cell = cells.paper_cell(row)
        if cell and cell.identity["method.name"] != "cps_ppa_cpkd":
            assert display_name(cell.identity) == row.method


def p_of(table, *methods):
    return [cells_of(table, method)["head % p"] for method in methods]


def test_p_is_that_of_a_paired_t_test_with_holm_correction(three, tmp_path):
    """Differences 2, 3, 4: t = 3 sqrt(3), whose p with 2 degrees of freedom is
    1 - t / sqrt(2 + t^2); two tests, so it counts twice.
    """
    table = made(*three, against="fedproto", **FINAL)
    t = 3 * np.sqrt(3)
    p = 1 - t / np.sqrt(2 + t**2)
    found = p_of(table, "ProtoNorm", "FedTGP", "FedProto")
    assert found == [f"{2 * p:.3f}", "1.000", "-"] and found[0] == "0.070"
    note = table.notes[1]
    assert note.startswith("p: two-sided paired t-test over 3 paired seeds against Fed")
    assert "no p below 0.25" in note and "The seeds share a partition" in note
    more = folder(tmp_path / "more", "protonorm", 7, 0.1)  # a seed that it alone has
    other = made(*three, more, against="fedproto", **FINAL)
    assert p_of(other, "ProtoNorm") == found[:1]
    table = made(*three, against="best", **FINAL)
    assert p_of(table, "ProtoNorm") == ["-"]
    assert p_of(table, "FedProto") == ["0.035"]  # one test: FedTGP is always 3 below
    assert "chosen by these same numbers, which lowers p" in table.notes[1]
    assert significance.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    # Differences that do not vary have no p, unless they are all 0.
    own = {"data__seed": -1}  # follow: seeds draw partitions of their own
    a = series(tmp_path, "fedproto", (0.5, 0.6), **own)
    b = series(tmp_path, "fedtgp", (0.6, 0.7), **own)
    c = series(tmp_path, "fedgh", (0.5, 0.6), **own)
    table = made(*a, *b, *c, against="fedproto", **FINAL)
    assert p_of(table, "FedTGP", "FedGH") == ["-", "1.000"]
    assert "share" not in table.notes[1]
    mixed = made(*a, *series(tmp_path, "fml", (0.5, 0.7)), against="fml", **FINAL)
    assert "their pairs share the seed alone." in mixed.notes[1]


def test_the_signed_rank_test_is_exact(three):
    table = made(*three, against="FedProto", test="wilcoxon", **FINAL)
    assert p_of(table, "ProtoNorm", "FedTGP") == ["0.500", "1.000"]  # 2 times 2 / 2^3
    signed_rank = significance.signed_rank
    for number in (4, 9, 13):  # with ties too: every choice of signs
        values = np.random.default_rng(number).normal(0.4, 1.0, number).round(1)
        values = values[values != 0]
        rank_N = stats.rankdata(np.abs(values))
        sum_S = [s @ rank_N for s in itertools.product((-1, 1), repeat=len(values))]
        observed = abs(np.sign(values) @ rank_N)
        want = np.mean(np.abs(sum_S) >= observed - 1e-9)
        assert signed_rank(values) == pytest.approx(want)
    # Ranks 1.5, 1.5, 3: |W| is 6 twice, so 3 and 0 are the other sums of 8.
    assert signed_rank(np.array([1.0, -1.0, 2.0, 0.0])) == pytest.approx(6 / 8)
    assert signed_rank(np.array([1.0, 0.0])) == 1.0  # one sign alone


def test_a_reference_that_is_none_or_several_is_an_error(three, tmp_path):
    with refused("There are: FedProto, FedTGP,"):
        made(*three, against="fedprot")
    other = series(tmp_path, "fedproto", (0.1, 0.2), local__epochs=5)
    with refused("names several rows: 'FedProto (local.epochs=1)', 'FedProto (loc"):
        made(*three, *other, against="fedproto")
    table = made(*three, *other, against="FedProto (local.epochs=5)", **FINAL)
    assert cells_of(table, "FedProto (local.epochs=5)")["head % p"] == "-"
    with refused("no two rows have two seeds in common"):
        made(three[0], three[3], against="best")


def test_ranks_share_ties_and_average_over_data_sets(tmp_path):
    """CIFAR-10: 2.5, 1, 2.5. CIFAR-100: 1, 2, and none for the third."""
    last = {"data__name": "tfds:cifar100"}
    first = {"fedproto": 0.5, "protonorm": 0.6, "fedtgp": 0.5}
    other = {"fedproto": 0.8, "protonorm": 0.7}
    paths = [folder(tmp_path / k, k, accuracy=a) for k, a in first.items()]
    paths += [folder(tmp_path / f"{k}2", k, 0, a, **last) for k, a in other.items()]
    table = made(*paths, rank="all", **FINAL)
    found = {row[0]: row[1:] for row in table.rows}
    assert table.head[1:3] == ("cifar10 head %", "cifar10 head % rank")
    assert found["FedProto"] == ("50.00", "2.5", "80.00", "1.0", "1.75")
    assert found["ProtoNorm"] == ("60.00", "1.0", "70.00", "2.0", "1.50")
    assert found["FedTGP"] == ("50.00", "2.5", "-", "-", "-")
    assert table.notes[1].endswith("No average without a number in each: FedTGP.")
    short = made(*paths, rank="average", **FINAL)
    assert short.head[1:] == ("cifar10 head %", "cifar100 head %", "average rank")
    text = compare.render(short, "markdown")
    assert "**60.00**" in text and text.count("<u>50.00</u>") == 2


def test_rounds_and_bytes_to_a_target_are_those_of_the_first_evaluation(tmp_path):
    """Seed 0 is at 70 % in round 4, seed 1 in round 2; a round moves 1 MB."""
    of = [[record(2 * k, 0.5 + s / 10 + k / 10) for k in (1, 2, 3)] for s in (0, 1)]
    paths = [folder(tmp_path / f"{s}", seed=s, history=of[s]) for s in (0, 1)]
    got = cells_of(made(*paths, target=70))
    assert got["head rounds to 70 %"] == "3.0 ± 1.0"
    assert got["head MB to 70 %"] == "3.000 ± 1.000"
    mean = made(paths[0], target=70, averages=["client"])  # 5 points below
    assert cells_of(mean)["head rounds to 70 %"] == "6.0"
    table = made(*paths, target=90)
    assert cells_of(table)["head rounds to 90 %"] == "-"
    assert any("90 % not reached by 1 of 2 (seed 0)." in note for note in table.notes)
    assert 100 * 0.57 < 57  # by rounding
    near = folder(tmp_path / "a", history=[record(1, 0.57), record(2, 0.9)])
    assert cells_of(made(near, target=57))["head rounds to 57 %"] == "1.0"


def test_another_metric_is_read_from_the_records(tmp_path):
    def scored(path, seed, f1, loss, **more):
        """Pooled and mean over clients of two metrics, in two evaluations."""
        rows = [
            record(at, 0.5, macro_f1=(x, x - 0.1), loss=(y, y + 1))
            for at, (x, y) in enumerate(zip(f1, loss, strict=True), 1)
        ]
        return folder(path, seed=seed, history=rows, **more)

    a = scored(tmp_path / "a", 0, (0.6, 0.5), (1.5, 1.25), **AS_PRINTED)
    b = scored(tmp_path / "b", 1, (0.8, 0.7), (0.5, 0.75), **AS_PRINTED)
    assert "published %" in made(a).head
    table = made(a, b, metric="macro_f1")
    assert cells_of(table)["head macro_f1 best %"] == "70.00 ± 10.00"
    assert cells_of(table)["head macro_f1 final %"] == "60.00 ± 10.00"
    assert table.notes[0].startswith("macro_f1 in %, best test round and final")
    assert "published %" not in table.head  # papers print accuracies
    loss = made(a, b, metric="loss", averages=["client"])  # less is better; no share
    assert cells_of(loss)["head loss best"] == "1.8750 ± 0.3750"
    until = made(a, metric="loss", target=1.3)
    assert cells_of(until)["head loss rounds to 1.3"] == "2.0"
    c = folder(tmp_path / "c", seed=2, history=[record(1, 0.5)], **AS_PRINTED)
    table = made(a, c, metric="loss")
    assert cells_of(table)["head loss final"] == "1.2500"
    assert f"Without loss: {c}." in table.notes
    with refused("papers print accuracies"):
        made(a, metric="macro_f1", columns=["published"])
    d = folder(tmp_path / "d", history=[record(1, 0.5, recall=([0.1, 0.2], [0, 1]))])
    with refused("'recall' is not one number"):
        made(d, metric="recall")
    with refused("no column is left: no run has one of"):
        made(folder(tmp_path / "e", data__alpha=0.3), columns=["published"])


def test_the_best_of_a_users_metric_is_the_one_in_the_summary(tmp_path):
    """`regret` is best where it is least; the summary is read before records."""
    paths = []
    for method, low in (("fedproto", 1.5), ("fedtgp", 2.5)):
        rows = [record(at, 0.5, regret=(x, x)) for at, x in ((1, low), (2, low + 1))]
        one = {"best": low, "final": low + 1, "mean_last": 9.0, "last_n": 2}
        more = {"metrics": {"head": {"regret": {"pooled": one, "mean": one}}}}
        paths.append(folder(tmp_path / method, method, history=rows, more=more))
    table = made(*paths, metric="regret", statistics=["best", "last10"])
    assert cells_of(table)["head regret best"] == "1.5000"
    assert cells_of(table)["head regret last10"] == "9.0000"
    text = compare.render(table, "markdown")
    assert "**1.5000**" in text and "<u>2.5000</u>" in text
    once = folder(tmp_path / "once", history=[record(1, 0.5, regret=(1.0, 1.0))])
    with refused("whether a larger or a smaller regret is better: name the file"):
        made(once, metric="regret")


def test_validation_chooses_the_best_of_a_metric_and_says_nothing_of_its_sign(tmp_path):
    runs = []
    for method, best in (("fedproto", 0.6), ("fedtgp", 0.5)):
        rows = [
            record(at, f1, macro_f1=(f1, f1)) | {"validation": {"head": {"pooled": by}}}
            for at, f1, by in ((1, 0.9, 0.2), (2, best, 0.4), (3, 0.1, 0.3))
        ]
        digests = metric_record.metric_summary(rows, metrics_by_name("macro_f1"))
        more = {"rules": records.rule_summary(rows), "metrics": digests}
        path = folder(tmp_path / method, method, rounds=3, more=more, history=rows)
        runs.append(compare.load(path))
    cut = [run_groups.until(run, 2) for run in runs]
    for group in map(compare.group_by_seed, (runs, cut)):
        how = {"averages": ["pooled"], "statistics": ["best"], "metric": "macro_f1"}
        text = compare.render(compare.table(group, **how), "markdown")
        assert "**60.00**" in text and "<u>50.00</u>" in text


def checked(text):
    """Asserts that braces balance and every line has the columns that are declared."""
    drawn = re.sub(r"^%.*$", "", text, flags=re.MULTILINE)
    braces = re.sub(r"\\[{}]", "", drawn)
    assert braces.count("{") == braces.count("}")
    spec = re.search(r"\\begin\{tabular\}\{(.*)\}$", drawn, re.MULTILINE)[1]
    columns = len(re.sub(r"\[[^]]*\]", "", spec))
    for line in drawn.splitlines():
        if line.endswith("\\\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            parts = line.count("&") - line.count("\\&") + 1
            assert parts + sum(spans) - len(spans) == columns, line
    return drawn


def test_latex_is_complete_and_has_booktabs_deviations_and_marks(tmp_path, three):
    last = {"data__name": "tfds:cifar100", "local__epochs": 2}
    paths = [*three, *series(tmp_path, "fedproto", (0.05, 0.06, 0.07), **last)]
    printed = folder(tmp_path / "p", "fedgh", **AS_PRINTED)
    table = made(*paths, printed, against="best", rank="all")
    for how in ({"transpose": True}, {"siunitx": True}):
        checked(compare.render(table, "latex", **how))
    text = checked(compare.render(made(*paths, **FINAL), "latex"))
    assert "\\toprule" in text and "\\multicolumn{1}{c}{CIFAR-10}" in text
    assert "\\textbf{63.00 $\\pm$ 8.98}" in text
    assert "\\underline{60.00 $\\pm$ 8.16}" in text
    assert "Accuracy in \\%" in text and "±" not in text
    text = checked(compare.render(made(*three, **FINAL), "latex", siunitx=True))
    assert "\\begin{tabular}{lS[table-format=2.2(3)]}" in text
    assert "\\bfseries 63.00 +- 8.98" in text
    assert "{\\underline{\\num{60.00 +- 8.16}}}" in text
    what_users_name = "a\\_b=50\\% \\{x\\} \\textasciitilde{} -{}-c\\textbackslash{}"
    assert latex.escaped("a_b=50% {x} ~ --c\\") == what_users_name
