"""What a paper takes from a comparison: marks, tests, ranks, targets, LaTeX, seeds."""

import csv
import dataclasses
import itertools
import re

import numpy as np
import pytest
from scipy import stats
from support.every import check_every
from support.workdirs import AS_PRINTED, cells_of, folder, made, record

from jaxproto import config
from jaxproto.cli import compare as command
from jaxproto.errors import UserError
from jaxproto.experiment import display_names as printed
from jaxproto.experiment.display_names import display_name
from jaxproto.methods import METHODS
from jaxproto.reporting import compare
from jaxproto.reporting.compare import latex, paper_tables, significance
from jaxproto.reporting.compare import paper_cells as cells

FINAL = {"statistics": ["final"], "columns": ["metric"]}


def series(tmp_path, method, accuracies, **fields):
    """A run per seed."""
    return [
        folder(tmp_path / f"{method}{len(fields)}-{s}", method, s, a, **fields)
        for s, a in enumerate(accuracies)
    ]


@pytest.fixture
def three(tmp_path):
    """FedProto; ProtoNorm, which is 2, 3 and 4 points above; FedTGP, -1, 0, 1."""
    return [
        *series(tmp_path, "fedproto", (0.50, 0.60, 0.70)),
        *series(tmp_path, "protonorm", (0.52, 0.63, 0.74)),
        *series(tmp_path, "fedtgp", (0.49, 0.60, 0.71)),
    ]


CPS = {"masks": "block", "scaling": "sum", "distill": "cpkd"}
OFF = dict.fromkeys(CPS, "none")
NAMED = (
    ("lg_fedavg", {}, "LG-FedAvg"),
    ("fedper", {}, "FedPer"),
    ("mine", {}, "mine"),
    ("mine", {"base": "fedtgp"}, "mine on fedtgp"),
    ("tinyproto", {"base": "fedproto"}, "TinyProto-FP"),
    ("tinyproto", {"base": "fedtgp"}, "TinyProto-FT"),
    ("tinyproto", {"base": "mine"}, "tinyproto on mine"),
    ("cps_ppa_cpkd", {"base": "fedtgp", **CPS}, "FedTGP + CPS + PPA + CPKD"),
    (
        "cps_ppa_cpkd",
        {"base": "fedtgp", **CPS, "masks": "none"},
        "FedTGP + PPA + CPKD",
    ),
    ("cps_ppa_cpkd", {"base": "fedtgp", **OFF}, "FedTGP without CPS, PPA, CPKD"),
)


def test_methods_and_data_sets_are_named_as_papers_print_them():
    for name, fields, shown in NAMED:
        given = {f"method.{k}": v for k, v in fields.items()}
        assert display_name({"method.name": name} | given) == shown
    for method, changes, shown in (
        ("tinyproto", {}, "TinyProto-FP"),
        ("cps_ppa_cpkd", {"method.masks": "none"}, "FedProto + PPA + CPKD"),
    ):
        configured = config.experiment(method, "digits")
        configured.update_from_flattened_dict(changes)
        assert display_name(config.flatten(configured)) == shown
    found = [
        paper_tables.display_dataset(n)
        for n in ("cifar10", "oxford_flowers102", "mine")
    ]
    assert found == ["CIFAR-10", "Flowers-102", "mine"]


def test_every_method_has_a_title_of_its_own_which_is_that_of_printed_tables(
    monkeypatch,
):
    """But for what a table calls a method with parts, or two papers differently."""
    titles = [printed.display_name({"method.name": name}) for name in METHODS]
    assert len({*titles}) == len(METHODS) and not {*titles} & {*METHODS}
    assert [printed.method_of_title(title) for title in titles] == [*METHODS]
    for row in cells.published_numbers():
        made_cell = cells.paper_cell(row)
        if made_cell and made_cell.identity["method.name"] != "cps_ppa_cpkd":
            assert display_name(made_cell.identity) == row.method

    def titled(spec):
        return dataclasses.replace(METHODS["local"](spec), title="Titled")

    # A title that is inherited does not count: the own name is shown instead.
    monkeypatch.setitem(METHODS, "mine", lambda spec: METHODS["local"](spec))
    monkeypatch.setitem(METHODS, "titled", titled)
    shown = [
        printed.display_name({"method.name": n}) for n in ("local", "mine", "titled")
    ]
    assert shown == ["Local", "mine", "Titled"]


def test_the_best_is_bold_and_the_second_underlined(three):
    lines = compare.render(made(*three, **FINAL), "markdown").splitlines()
    body = [line for line in lines if line.startswith("| ")][1:]
    assert "**63.00 ± 8.98**" in body[1] and "ProtoNorm" in body[1]
    assert "<u>60.00 ± 8.16</u>" in body[0] and "<u>60.00 ± 8.98</u>" in body[2]
    assert lines[-1] == "Best in bold, second underlined."
    unmarked = {"statistics": ["final"], "columns": ["bytes", "seconds"]}
    assert "**" not in compare.render(made(*three, **unmarked), "markdown")


def test_what_is_printed_alike_is_marked_alike_and_alone_not_at_all(tmp_path):
    a = folder(tmp_path / "a", accuracy=0.500001)
    b = folder(tmp_path / "b", "fedtgp", accuracy=0.5)
    text = compare.render(made(a, b, **FINAL), "markdown")
    assert text.count("**50.00**") == 2 and "<u>" not in text
    alone = compare.render(made(a, **FINAL), "markdown")
    assert "**" not in alone and "bold" not in alone


@pytest.mark.parametrize(("ddof", "text"), [(0, "8.16"), (1, "10.00")])
def test_the_deviation_has_the_ddof_that_is_asked_for_and_says_so(three, ddof, text):
    """Of 50, 60, 70: the square root of 200 / 3, or of 200 / 2."""
    table = made(*three, ddof=ddof, **FINAL)
    assert cells_of(table)["head %"] == f"60.00 ± {text}"
    assert f"standard deviation (ddof {ddof}) of 3 seeds" in table.notes[0]
    lines = compare.render(table, "latex").splitlines()
    (caption,) = (line for line in lines if line.startswith("\\caption"))
    assert f"(ddof {ddof})" in caption


def p_of(table, *methods):
    return [cells_of(table, method)["head % p"] for method in methods]


def test_p_is_that_of_a_paired_t_test_corrected_by_holm(three, tmp_path):
    """Of differences 2, 3, 4: t = 3 sqrt(3), whose p with 2 degrees of freedom is
    1 - t / sqrt(2 + t^2); two tests, so it counts twice.
    """
    table = made(*three, against="fedproto", **FINAL)
    t = 3 * np.sqrt(3)
    p = 1 - t / np.sqrt(2 + t**2)
    found = p_of(table, "ProtoNorm", "FedTGP", "FedProto")
    assert found == [f"{2 * p:.3f}", "1.000", "-"] and found[0] == "0.070"
    assert table.notes[1] == (
        "p: two-sided paired t-test over 3 paired seeds against FedProto, "
        "Holm-corrected over the other methods. Of 3 seeds a signed-rank test "
        "reaches no p below 0.25 before correction; the t-test takes differences for "
        "normal, and says nothing where they do not vary. The seeds share a partition: "
        "p says nothing of others."
    )
    more = folder(tmp_path / "more", "protonorm", 7, 0.1)  # a seed that it alone has
    other = made(*three, more, against="fedproto", **FINAL)
    assert p_of(other, "ProtoNorm") == found[:1]
    table = made(*three, against="best", **FINAL)
    assert p_of(table, "ProtoNorm") == ["-"]
    assert p_of(table, "FedProto") == ["0.035"]  # one test: FedTGP is always 3 below
    assert "chosen by these same numbers, which lowers p" in table.notes[1]
    assert significance.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert significance.holm([0.6, 0.7]) == [1.0, 1.0] and significance.holm([]) == []


def test_the_signed_rank_test_is_exact_and_says_how_low_it_reaches(three):
    table = made(*three, against="FedProto", test="wilcoxon", **FINAL)
    assert p_of(table, "ProtoNorm", "FedTGP") == ["0.500", "1.000"]  # 2 times 2 / 2^3
    assert "no p below 0.25 before correction." in table.notes[1]
    assert significance.signed_rank(np.arange(1.0, 6.0)) == pytest.approx(2 / 2**5)
    for number in (4, 7, 12, 13, 20):  # without ties it is that of scipy
        values = np.random.default_rng(number).normal(0.4, 1.0, number)
        want = stats.wilcoxon(values, method="exact" if number < 13 else "auto")
        assert significance.signed_rank(values) == pytest.approx(want.pvalue)
    # Ranks 1.5, 1.5, 3: |W| is 6 twice, so 3 and 0 are the other sums of 8.
    assert significance.signed_rank(np.array([1.0, -1.0, 2.0, 0.0])) == pytest.approx(
        6 / 8
    )
    assert significance.signed_rank(np.array([1.0, 0.0])) == 1.0  # one sign alone
    tied = np.array([3.0, 1.0, 1.0, -1.0, 0.0, 2.0, 2.0])
    permuted = stats.wilcoxon(tied, method=stats.PermutationMethod())
    assert significance.signed_rank(tied) == pytest.approx(permuted.pvalue)


def test_differences_that_do_not_vary_have_no_p_unless_they_are_none(tmp_path):
    own = {"data__seed": -1}  # follow: seeds draw partitions of their own
    a = series(tmp_path, "fedproto", (0.5, 0.6), **own)
    b = series(tmp_path, "fedtgp", (0.6, 0.7), **own)
    c = series(tmp_path, "fedgh", (0.5, 0.6), **own)
    table = made(*a, *b, *c, against="fedproto", **FINAL)
    assert p_of(table, "FedTGP", "FedGH") == ["-", "1.000"]
    assert "share" not in table.notes[1]


def test_a_reference_that_is_none_or_several_is_named(three, tmp_path):
    with pytest.raises(UserError, match=r"'fedprot'\. .* There are: FedProto, FedTGP,"):
        made(*three, against="fedprot")
    other = series(tmp_path, "fedproto", (0.1, 0.2), local__epochs=5)
    both = r"names several rows: 'FedProto \(local.epochs=1\)', 'FedProto \(loc"
    with pytest.raises(UserError, match=both):
        made(*three, *other, against="fedproto")
    table = made(*three, *other, against="FedProto (local.epochs=5)", **FINAL)
    assert cells_of(table, "FedProto (local.epochs=5)")["head % p"] == "-"
    with pytest.raises(UserError, match="no two rows have two seeds in common"):
        made(three[0], three[3], against="best")


def test_ranks_share_ties_and_average_over_data_sets(tmp_path):
    """CIFAR-10: 2.5, 1, 2.5. CIFAR-100: 1, 2, and none for the third."""
    last = {"data__name": "tfds:cifar100"}
    paths = [
        folder(tmp_path / "a", "fedproto", accuracy=0.5),
        folder(tmp_path / "b", "protonorm", accuracy=0.6),
        folder(tmp_path / "c", "fedtgp", accuracy=0.5),
        folder(tmp_path / "d", "fedproto", accuracy=0.8, **last),
        folder(tmp_path / "e", "protonorm", accuracy=0.7, **last),
    ]
    table = made(*paths, rank="all", **FINAL)
    found = {row[0]: row[1:] for row in table.rows}
    assert table.head[1:3] == ("cifar10 head %", "cifar10 head % rank")
    assert found["FedProto"] == ("50.00", "2.5", "80.00", "1.0", "1.75")
    assert found["ProtoNorm"] == ("60.00", "1.0", "70.00", "2.0", "1.50")
    assert found["FedTGP"] == ("50.00", "2.5", "-", "-", "-")
    assert "Average of 2 ranks" in table.notes[1]
    assert table.notes[1].endswith("No average without a number in each: FedTGP.")
    assert "**1.50**" in compare.render(table, "markdown")
    short = made(*paths, rank="average", **FINAL)
    assert short.head[1:] == ("cifar10 head %", "cifar100 head %", "average rank")


def test_p_and_ranks_are_numbers_in_a_csv_and_a_rank_stands_after_its_p(three):
    table = made(*three, against="fedproto", rank="all", **FINAL)
    titles = ("method", "head %", "head % p", "head % rank", "average rank")
    assert table.head == titles
    rows = list(csv.DictReader(compare.render(table, "csv").splitlines()))
    assert [row["head % p"] for row in rows] == ["", "0.07", "1.0"]
    assert [row["average rank"] for row in rows] == ["2.5", "1.0", "2.5"]


def climbing(path, seed=0, start=0.5, **more):
    """10 points more every second round, from round 2."""
    rows = [record(2 * k, start + k / 10, **more) for k in (1, 2, 3)]
    return folder(path, seed=seed, history=rows)


def test_rounds_and_bytes_to_a_target_are_those_of_the_first_evaluation(tmp_path):
    """Seed 0 is at 70 % in round 4, seed 1 in round 2; a round moves 1 MB."""
    paths = [climbing(tmp_path / f"{s}", s, 0.5 + s / 10) for s in (0, 1)]
    got = cells_of(made(*paths, target=70))
    assert got["head rounds to 70 %"] == "3.0 ± 1.0"
    assert got["head MB to 70 %"] == "3.000 ± 1.000"
    pooled, mean = (
        cells_of(made(paths[0], target=65, averages=[average]))
        for average in ("pooled", "client")
    )
    assert (pooled["head rounds to 65 %"], mean["head rounds to 65 %"]) == ("4.0",) * 2
    assert cells_of(made(paths[0], target=60))["head rounds to 60 %"] == "2.0"
    table = made(*paths, target=90)
    assert cells_of(table)["head rounds to 90 %"] == "-"
    missed = "cifar10: FedProto, head: 90 % not reached by 1 of 2 (seed 0)."
    assert missed in table.notes
    assert 100 * 0.57 < 57  # by rounding
    near = folder(tmp_path / "a", history=[record(1, 0.57), record(2, 0.9)])
    assert cells_of(made(near, target=57))["head rounds to 57 %"] == "1.0"
    fast = folder(tmp_path / "f", "fedtgp", history=[record(1, 0.9)])
    text = compare.render(made(paths[0], fast, target=70), "markdown")
    assert "**1.0**" in text and "<u>4.0</u>" in text  # fewer are better


def test_a_target_without_records_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds no metrics\.jsonl"):
        made(folder(tmp_path / "a"), target=90)


def scored(path, seed, f1, loss):
    """Pooled and mean over clients of two metrics, in two evaluations."""
    rows = [
        record(at, 0.5, macro_f1=(x, x - 0.1), loss=(y, y + 1))
        for at, (x, y) in enumerate(zip(f1, loss, strict=True), 1)
    ]
    return folder(path, seed=seed, history=rows)


def test_another_metric_is_read_from_the_records(tmp_path):
    a = scored(tmp_path / "a", 0, (0.6, 0.5), (1.5, 1.25))
    b = scored(tmp_path / "b", 1, (0.8, 0.7), (0.5, 0.75))
    table = made(a, b, metric="macro_f1")
    assert cells_of(table)["head macro_f1 best %"] == "70.00 ± 10.00"
    assert cells_of(table)["head macro_f1 final %"] == "60.00 ± 10.00"
    assert table.notes[0].startswith("macro_f1 in %, best test round and final")
    last = made(a, b, metric="macro_f1", statistics=["last10"], averages=["client"])
    assert cells_of(last)["head macro_f1 %"] == "55.00 ± 10.00"
    loss = made(a, b, metric="loss")  # less is better; no share
    assert cells_of(loss)["head loss best"] == "0.8750 ± 0.3750"
    until = made(a, metric="loss", target=1.3)
    assert cells_of(until)["head loss rounds to 1.3"] == "2.0"
    with (a / "metrics.jsonl").open("a") as file:  # records that grew are read again
        file.write((a / "metrics.jsonl").read_text().replace("1.25,", "1.75,"))
    assert cells_of(made(a, metric="loss"))["head loss final"] == "1.7500"


def test_a_seed_that_has_not_measured_a_metric_is_named_and_a_metric_of_none(tmp_path):
    a = scored(tmp_path / "a", 0, (0.6,), (1.5,))
    b = folder(tmp_path / "b", seed=1, history=[record(1, 0.5)])
    table = made(a, b, metric="loss")
    assert cells_of(table)["head loss final"] == "1.5000"
    assert f"Without loss: {b}." in table.notes
    there = r"no run has metric 'auc'.*: accuracy, loss, m"
    with pytest.raises(UserError, match=there):
        made(a, metric="auc")
    c = folder(tmp_path / "c", history=[record(1, 0.5, recall=([0.1, 0.2], [0, 1]))])
    with pytest.raises(UserError, match="'recall' is not one number"):
        made(c, metric="recall")


def test_a_metric_of_ones_own_is_best_as_its_summary_says(tmp_path):
    """`regret` has its best where it is least; the summary is read before records."""
    for n, low in enumerate((1.5, 2.5)):
        rows = [record(at, 0.5, regret=(x, x)) for at, x in ((1, low), (2, low + 1))]
        one = {"best": low, "final": low + 1, "mean_last": 9.0, "last_n": 2}
        more = {"metrics": {"head": {"regret": {"pooled": one, "mean": one}}}}
        method = ("fedproto", "fedtgp")[n]
        folder(tmp_path / method, method, history=rows, more=more)
    paths = [tmp_path / "fedproto", tmp_path / "fedtgp"]
    table = made(*paths, metric="regret", statistics=["best", "last10"])
    assert cells_of(table)["head regret best"] == "1.5000"
    assert cells_of(table)["head regret last10"] == "9.0000"
    text = compare.render(table, "markdown")
    assert "**1.5000**" in text and "<u>2.5000</u>" in text


def checked(text):
    """Asserts that braces balance and every line has the columns that are declared."""
    drawn = re.sub(r"^%.*$", "", text, flags=re.MULTILINE)
    depth = 0
    for c in re.sub(r"\\[{}]", "", drawn):
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    spec = re.search(r"\\begin\{tabular\}\{(.*)\}$", drawn, re.MULTILINE)[1]
    columns = len(re.sub(r"\[[^]]*\]", "", spec))
    for line in drawn.splitlines():
        if line.endswith("\\\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = line.count("&") - line.count("\\&") + 1
            assert cells + sum(spans) - len(spans) == columns, line
    return drawn


def test_latex_is_whole_and_has_booktabs_plus_minus_and_marks(tmp_path, three):
    last = {"data__name": "tfds:cifar100", "local__epochs": 2}
    paths = [*three, *series(tmp_path, "fedproto", (0.05, 0.06, 0.07), **last)]
    printed = folder(tmp_path / "p", "fedgh", **AS_PRINTED)
    table = made(*paths, printed, against="best", rank="all")
    for turned, siunitx in itertools.product((False, True), repeat=2):
        checked(compare.render(table, "latex", transpose=turned, siunitx=siunitx))
    text = checked(compare.render(made(*paths, **FINAL), "latex"))
    assert "\\toprule" in text and "\\multicolumn{1}{c}{CIFAR-10}" in text
    assert "\\textbf{63.00 $\\pm$ 8.98}" in text
    assert "\\underline{60.00 $\\pm$ 8.16}" in text
    assert "Accuracy in \\%" in text and "±" not in text


def test_latex_for_siunitx_has_numbers_as_s_columns_read_them(three):
    text = checked(compare.render(made(*three, **FINAL), "latex", siunitx=True))
    assert "\\begin{tabular}{lS[table-format=2.2(3)]}" in text
    assert "\\bfseries 63.00 +- 8.98" in text
    assert "{\\underline{\\num{60.00 +- 8.16}}}" in text
    assert latex.escaped("a_b=50% {x} ~ --c\\") == (  # what users name
        "a\\_b=50\\% \\{x\\} \\textasciitilde{} -{}-c\\textbackslash{}"
    )


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_transposed_methods_are_columns(three, form):
    text = compare.render(made(*three, **FINAL), form, transpose=True)
    head, (line,) = (
        next(s for s in text.splitlines() if "method" in s),
        [s for s in text.splitlines() if "head %" in s],
    )
    assert all(name in head for name in ("FedProto", "ProtoNorm", "FedTGP"))
    assert all(number in line for number in ("60.00 ± 8.16", "63.00 ± 8.98"))


def test_the_numbers_of_each_seed_are_a_tidy_csv(three, tmp_path, capsys):
    out = tmp_path / "seeds.csv"
    command.main("compare", [*map(str, three), "--tidy", str(out)])
    assert str(out) in capsys.readouterr().err
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9 * 2 * 4  # runs, averages, statistics
    one = {"method": "protonorm", "seed": "2", "average": "pooled"}
    found = [r for r in rows if one.items() <= r.items()]
    assert {r["label"] for r in found} == {"ProtoNorm"}
    found = {r["statistic"]: r["value"] for r in found}
    assert found.pop("client_best") == ""  # records without clients
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {"best": 0.84, "final": 0.74, "last10": 0.79}
    )


OPTIONS = {
    "--format": ("text", "markdown", "latex", "csv", "json"),
    "--transpose": (None, ""),
    "--siunitx": (None, ""),
    "--ranks": (None, "all"),
    "--against": (None, "best"),
    "--target": (None, "70"),
    "--metric": (None, "macro_f1"),
}


def test_every_combination_of_flags_is_a_table_or_one_line(tmp_path, capsys):
    """Two methods with two seeds, and one with one on another data set."""
    rows = [record(k, 0.5 + k / 10, macro_f1=(k / 10, k / 20)) for k in (1, 2, 3)]
    here = {"history": rows, "data__alpha": 0.3}  # which no paper has, and is quicker
    paths = [
        str(folder(tmp_path / f"{m}{s}", m, s, 0.5 + s / 7 + n / 9, **here))
        for n, m in enumerate(("fedproto", "local"))
        for s in (0, 1)
    ]
    here["data__name"] = "tfds:cifar100"
    paths.append(str(folder(tmp_path / "x", "fedgh", **here)))
    groups = compare.group_by_seed(map(compare.load, paths))
    shown = refused = 0
    for values in itertools.product(*OPTIONS.values()):
        given = [(k, v) for k, v in zip(OPTIONS, values, strict=True) if v is not None]
        flags = [k if v == "" else f"{k}={v}" for k, v in given]
        try:
            command.print_comparison(
                groups, command.parse_args("compare", [*paths, *flags])
            )
            assert capsys.readouterr().out, flags
            shown += 1
        except UserError as e:
            assert "\n" not in str(e)
            assert {"--transpose", "--siunitx"} & {*flags}, (flags, e)
            refused += 1
    assert (shown, refused) == (16 * (2 + 2 + 4 + 1 + 1), 16 * (2 + 2 + 0 + 3 + 3))


FLAGS = (
    (["--siunitx"], "--siunitx is of --format=latex, and this is text."),
    (["--format=csv", "--transpose"], "csv has a row per method"),
    (["--ddof=2"], "argument --ddof: invalid choice: 2"),
    (["--target=high"], "'high' is not a number such as 90"),
    (["--target=nan"], "'nan' is not a number such as 90"),
    (["--target=-3"], "--target=-3 is no share in %"),
    (["--target=900"], "--target=900 is no share"),
    (["--test=t"], "--test=t is the test of --against"),
    (["--against=fedavg"], "unknown row of --against 'fedavg'"),
    (["--metric=auc"], "no run has metric 'auc'"),
    (["--columns=acuracy"], "unknown kind of columns 'acuracy'"),
    (["--columns=bytes", "--ranks=all"], "add --columns=metric"),
    (["--ranks=some"], "argument --ranks: invalid choice: 'some'"),
    (["--out=new", "--tidy=new"], "--out and --tidy are both new"),
)


def test_flags_that_cannot_be_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = str(climbing(tmp_path / "run"))

    def check(flags, why):
        with pytest.raises(UserError) as e:
            command.main("compare", [run, *flags])
        assert why in str(e.value) and "\n" not in str(e.value)

    check_every(FLAGS, check)


def test_published_accuracies_do_not_stand_beside_another_metric(tmp_path):
    rows = [record(1, 0.5, macro_f1=(0.5, 0.4))]
    path = folder(tmp_path / "a", history=rows, **AS_PRINTED)
    assert "published %" in made(path).head
    table = made(path, metric="macro_f1")
    assert "published %" not in table.head
    assert not any(note.startswith("Published") for note in table.notes)
    with pytest.raises(UserError, match="papers print accuracies"):
        made(path, metric="macro_f1", columns=["published"])
    other = folder(tmp_path / "b", data__alpha=0.3)
    with pytest.raises(UserError, match="no column is left: no run has one of"):
        made(other, columns=["published"])
