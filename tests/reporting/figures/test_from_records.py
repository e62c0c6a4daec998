"""Curves and bars from the records of runs and sweeps, and of the papers' formulas."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import drawing
from support.drawing import apart, boxes, dashed, legend, lines, ticks, titles
from support.every import check_every
from support.workdirs import folder

from jaxproto import config, plots
from jaxproto.cli import plot
from jaxproto.errors import UserError
from jaxproto.reporting.figures import arguments as selection
from jaxproto.reporting.figures import from_formulas, from_records, registry
from jaxproto.storage import records
from jaxproto.sweeps import outputs, parse_axes
from jaxproto.sweeps.plan import plan
from jaxproto.types import Spec

drawn = drawing.drawn
PAGE = Path(__file__).parents[3] / "docs/how_to/pictures.md"


@pytest.fixture
def bands(monkeypatch):
    """What a command would draw: titles, bands and names of the axes."""
    seen = []
    monkeypatch.setattr(plots, "bands", lambda *a, **k: seen.append(a[1:]))
    return seen


def watched(r, accuracy, seed):
    """Record of an evaluation that says what the alignments since round 1 took."""
    iterations = [10.0 + seed] * (r - r // 2)
    return {
        "round": r,
        "rules": {"head": {"pooled": accuracy * r / 3}},
        "every_round": {"alignment_iterations": iterations},
    }


@pytest.fixture
def make(tmp_path):
    """Writes what a finished run leaves; returns its folder as a text."""

    def run(name, method, accuracy=0.5, seed=0, history=(), **fields):
        history = history or [watched(r, accuracy, seed) for r in (1, 3)]
        how = {"rules": ("head", "local"), "history": history, **fields}
        return str(folder(tmp_path / name, method, seed, accuracy, **how))

    return run


@pytest.fixture
def draw(tmp_path):
    """Calls `jaxproto plot`; its file is out.png."""

    def f(name, *arguments):
        plot.main("plot", [name, str(tmp_path / "out.png"), *arguments])

    return f


# ------------------------------------------------------ accuracy against bytes


def sending(up, down, rules=("head", "local"), top=0.8):
    """Three evaluations of a run that moves so many bytes a round."""
    return [
        {
            "round": r,
            "rules": {
                k: {"pooled": top * r / 4 - 0.1 * i} for i, k in enumerate(rules)
            },
            "bytes_total": {"up": up * r, "down": down * r},
        }
        for r in (1, 2, 4)
    ]


@pytest.mark.long
def test_bytes_have_a_line_per_rule_of_one_run_and_a_panel_per_rule_of_several(drawn):
    runs = {"protonorm-digits-seed0": [sending(1000, 4000)]}
    figure = drawn(plots.accuracy_against_bytes, runs)
    (one,) = figure.axes
    curve = lines(one)["local"]
    np.testing.assert_allclose(curve.get_xydata(), [[5, 10], [10, 30], [20, 70]])
    assert one.get_xlabel() == "sent so far, both ways (kB)"
    assert titles(figure) == ["protonorm-digits-seed0"]
    assert legend(figure) == ["head", "local"] and one.get_xscale() == "linear"
    runs = {
        "fedproto": [sending(2_000_000, 3_000_000)],
        "tinyproto": [sending(200_000, 4_000_000, ("head", "local", "global"))],
    }
    figure = drawn(plots.accuracy_against_bytes, runs)
    assert titles(figure) == ["rule head", "rule local", "rule global"]
    head, _, all_classes = figure.axes
    np.testing.assert_allclose(lines(head)["fedproto"].get_xdata(), [5, 10, 20])
    assert head.get_xlabel() == "sent so far, both ways (MB)"
    assert list(lines(all_classes)) == ["tinyproto"]
    assert legend(figure) == ["fedproto", "tinyproto"]
    colours = [lines(panel)["tinyproto"].get_color() for panel in figure.axes]
    assert len(set(colours)) == 1 != lines(head)["fedproto"].get_color()


@pytest.mark.long
def test_bytes_far_apart_get_a_log_scale_and_none_are_a_line_across(drawn):
    for large, scale in ((150, "log"), (100, "linear")):
        runs = {"small": [sending(10, 0)], "large": [sending(large, 60)]}
        figure = drawn(plots.accuracy_against_bytes, runs, rule="head")
        assert [panel.get_xscale() for panel in figure.axes] == [scale]
    local = {"local": [sending(0, 0, ["head"], top=0.6)]}
    runs = {"fedproto": [sending(10, 20)]} | local
    panel = drawn(plots.accuracy_against_bytes, runs).axes[0]
    across = lines(panel)["local (sends nothing)"]
    np.testing.assert_allclose(across.get_xydata(), [[0, 60], [1, 60]])
    assert across.get_transform() == panel.get_yaxis_transform(which="grid")
    alone = drawn(plots.accuracy_against_bytes, local).axes[0]
    assert list(lines(alone)) == ["head (sends nothing)"]


@pytest.mark.long
def test_a_gap_is_left_for_what_is_missing_and_all_curves_can_be_told_apart(drawn):
    rows = sending(10, 20, ["head"])
    rows[1]["rules"]["head"]["pooled"] = None
    curve = lines(drawn(plots.accuracy_against_bytes, {"a": [rows]}).axes[0])["head"]
    assert np.isnan(curve.get_ydata()).tolist() == [False, True, False]
    runs = {f"run{i}": [sending(10 + i, 20, ["head"])] for i in range(14)}
    panel = drawn(plots.accuracy_against_bytes, runs).axes[0]
    looks = {(c.get_color(), str(c._unscaled_dash_pattern)) for c in panel.lines}
    assert len(looks) == 14 > len({colour for colour, _ in looks})
    rows = sending(10, 20, ["global", "global_own"], top=0.8)
    for row in rows:
        row["rules"]["global_own"] = row["rules"]["global"]
    below, above = drawn(plots.accuracy_against_bytes, {"a": [rows]}).axes[0].lines
    np.testing.assert_array_equal(below.get_xydata(), above.get_xydata())
    assert below.get_linestyle() == "-" and above.get_linestyle() == "--"
    assert below.get_color() != above.get_color()
    assert below.get_marker() != above.get_marker()
    assert above.get_markerfacecolor() == "none"  # what is below is seen through it
    assert below.get_markersize() < above.get_markersize()


@pytest.mark.long
def test_bytes_of_seeds_are_their_mean_with_a_band(drawn):
    seeds = [sending(10, 0, top=0.8), sending(30, 0, top=0.4)]
    runs = {"a": seeds, "b": [sending(1, 1)]}
    panel = drawn(plots.accuracy_against_bytes, runs, "head").axes[0]
    curve = lines(panel)["a"]
    np.testing.assert_allclose(curve.get_xydata(), [[20, 15], [40, 30], [80, 60]])
    (band,) = panel.collections
    extent = band.get_datalim(panel.transData)
    assert (extent.ymin, extent.ymax) == pytest.approx((10, 80))


@pytest.mark.long
def test_runs_whose_bytes_cannot_be_drawn_are_named(tmp_path):
    out, good = tmp_path / "x.png", sending(1, 1)

    def check(runs, rule, message):
        with pytest.raises(UserError, match=message):
            plots.accuracy_against_bytes(out, runs, rule)
        assert not out.exists()

    cases = [
        ({"a": [good], "b": [[]]}, None, "run 'b' has no evaluation yet"),
        (
            {"old": [[{"round": 10, "rules": {}}]]},
            None,
            r"run 'old' has no bytes_total in .* round 10",
        ),
        ({"a": [good]}, "locl", r"unknown rule 'locl'\. Did you mean 'local'"),
        ({"a": [good[:1], good[1:]]}, None, "share no evaluated round"),
    ]
    check_every(cases, check)


@pytest.mark.long
def test_the_command_draws_several_work_directories(make, draw, tmp_path, monkeypatch):
    runs = [
        make(f"{method}/seed0", method, history=sending(10 + i, 20))
        for i, method in enumerate(("fedproto", "tinyproto"))
    ]
    out, name = tmp_path / "out.png", "accuracy_against_bytes"
    call = [sys.executable, "-m", "jaxproto", "plot", name, out, *runs]
    done = subprocess.run(call, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"written to {out}\n"
    assert out.stat().st_size > 10_000
    seen = []
    monkeypatch.setattr(plots, name, lambda *a: seen.append(a[1:]))
    out.unlink()
    draw(name, *runs, "--rule", "head")
    both = {"FedProto": [sending(10, 20)], "TinyProto-FP": [sending(11, 20)]}
    assert seen == [(both, "head")]
    draw("bytes", runs[0])
    assert list(seen[1][0]) == ["FedProto"] and seen[1][1] is None


# -------------------------------------------------------- several runs by command


def test_accuracy_over_rounds_is_the_mean_over_seeds(make, draw, bands):
    runs = [make(f"a-{s}", "fedproto", 0.6 + 0.3 * s, s) for s in (0, 1)]
    draw("accuracy_over_rounds", *runs, make("b", "local", 0.3))
    ((shown, xlabel, _),) = bands
    ours, other = shown["rule head"]
    assert (ours.label, other.label) == ("FedProto (2 seeds)", "Local (1 seed)")
    assert ours.x == [1, 3] and xlabel == "round"
    np.testing.assert_allclose(ours.mean, [25, 75])
    np.testing.assert_allclose([ours.low, ours.high], [[20, 60], [30, 90]])


def test_accuracy_against_a_field_has_a_line_per_series(make, draw, bands):
    runs = [
        make(f"s{s}-{seed}", "tinyproto", s / 100 + seed / 10, seed, method__s=s)
        for s in (50, 5)
        for seed in (0, 1)
    ]
    runs.append(make("other", "tinyproto", 0.7, method__s=5, method__mu=0.5))
    runs.append(make("all", "fedproto", 0.9))
    arguments = ["--field", "method.s", "--rule", "head"]
    draw("accuracy_against_field", *runs, *arguments, "--statistic", "final")
    first, other, across = bands[0][0]["rule head"]
    assert (first.x, first.kind) == ([5, 50], "points")
    np.testing.assert_allclose(first.mean, [10, 55])
    np.testing.assert_allclose([first.low, first.high], [[5, 50], [15, 60]])
    assert other.label == "TinyProto-FP (mu 0.5)" and other.x == [5]
    assert (across.label, across.kind) == ("FedProto", "across")
    np.testing.assert_allclose(across.mean, [90])
    draw("accuracy_against_field", *runs, *arguments)  # as the figures of a sweep
    np.testing.assert_allclose(bands[1][0]["rule head"][0].mean, [20, 65])


def test_two_fields_share_an_axis_and_words_stand_on_it(make, draw, bands):
    runs = [make(f"s{s}", "tinyproto", method__s=s) for s in (0, 32)]
    runs += [make(f"d{d}", "fedproto", model__feat_dim=d) for d in (8, 32)]
    draw("accuracy_against_field", *runs, "--field", "method.s,model.feat_dim")
    tiny, whole = bands[0][0]["rule local"]
    assert (tiny.label, tiny.x) == ("TinyProto-FP (s)", [32, 50])  # 0: a tenth of 500
    assert (whole.label, whole.x) == ("FedProto (feat_dim)", [8, 32])
    runs = [make(k, "fedproto", data__partition=k) for k in ("iid", "dirichlet")]
    draw("accuracy_against_field", *runs, "--field", "data.partition")
    assert bands[1][0]["rule head"][0].x == ["dirichlet", "iid"]
    line = from_records._against("vhl", [(False, [50.0]), (True, [60.0])])
    assert line.x == ["False", "True"]


def test_iterations_are_those_of_every_round(make, draw, bands):
    draw("alignment_iterations", *(make(f"a-{s}", "protonorm", seed=s) for s in (0, 2)))
    (shown,) = bands[0][0][""]
    assert shown.x == [1, 2, 3]
    assert shown.mean.tolist() == [11] * 3 and shown.high.tolist() == [12] * 3


def test_what_a_command_cannot_use_is_one_line(make, tmp_path):
    here = {"data__name": "digits", "data__clients": 4, "model__group": "mlp"}
    a, b = make("a", "fedproto", **here), make("b", "local")
    diverged = make("c", "fedproto", status="diverged")
    blind = make("d", "fedproto", history=[{"round": 1, "rules": {"head": {}}}])
    there, empty = tmp_path / "there.png", tmp_path / "empty"
    there.write_text("mine")
    empty.mkdir()
    over, bytes_ = "accuracy_over_rounds", "accuracy_against_bytes"
    field, rounds = "accuracy_against_field", ["--field", "rounds"]

    def check(what, name, *arguments, out="out.png"):
        with pytest.raises(UserError, match=what) as caught:
            plot.main("plot", [name, str(tmp_path / out), *arguments])
        assert "\n" not in str(caught.value)
        assert out == "there.png" or not (tmp_path / out).exists()

    cases = [
        ("unknown field 'method.ss'", field, a, "--field", "method.ss"),
        ("required: --field", field, a),
        ("is not finished; leave it out", field, diverged, *rounds),
        ("unknown rule 'hed'", over, a, "--rule", "hed"),
        ("is no partition of a run", "partition", a),
        ("'a' is no list of numbers such as 2,5", "partition", a, "--classes", "a"),
        ("holds no checkpoint, which networks and prototypes are", "margins", a),
        ("no alignment_iterations in its records", "alignment_iterations", blind),
        ("--target=0 is no share", "until", a, "--target", "0"),
        ("holds no config.json", bytes_, str(empty)),
        (f"a picture of one run: name one of {a}, {b}, ", "partition", str(tmp_path)),
        ("given twice", bytes_, a, a),
        ("required: WORKDIR", bytes_),
        ("picture 'accuracies'. Did you mean 'accuracy'?", "accuracies", a, b),
        ("invalid choice: 'page'", bytes_, a, b, "--size", "page"),
    ]
    check_every(cases, check)
    for out, what in (
        ("there.png", "exists already: delete it or name"),
        ("out.gif", "does not end in .png, .pdf or .svg"),
        ("no/out.png", "cannot write"),
    ):
        check(what, bytes_, a, b, out=out)


def test_a_picture_of_a_sweep_is_named_by_a_flag_or_after_its_kind(
    make, bands, tmp_path, monkeypatch, capsys
):
    cells = [make(f"sweep/{lam:g}", "fedproto", method__lam=lam) for lam in (1.0, 5.0)]
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    field = ["--field", "method.lam"]
    for given, out in (
        (["accuracy_against_field", *cells], "accuracy_against_field.png"),
        (["accuracy_against_field", "sweep", "runs"], "accuracy_against_field.png"),
        (["accuracy_against_field", "sweep", "--out=a.pdf"], "a.pdf"),
        (["accuracy_against_field", "b.svg", "sweep"], "b.svg"),
    ):
        plot.main("plot", [*given, *field])
        said, err = capsys.readouterr()
        assert said == f"written to {out}\n"
        assert err == "skipped, as it holds no run: runs\n" * ("runs" in given)
    assert len({str(one) for one in bands}) == 1
    assert bands[0][0]["rule head"][0].x == [1.0, 5.0]


def test_runs_of_a_method_are_told_apart_by_what_differs():
    one = {"method.name": "fedproto", "method.lam": 1.0, "data.name": "digits"}
    many = {f"method.field{i}": i for i in range(9)}
    for changes, told in [
        ({"method.name": "local"}, ["FedProto", "Local"]),
        ({"method.lam": 2.5}, ["FedProto (lam 1)", "FedProto (lam 2.5)"]),
        (
            {"data.name": "tfds:fashion_mnist"},
            ["FedProto (digits)", "FedProto (fashion_mnist)"],
        ),
        (many, ["FedProto (a)", "FedProto (b)"]),
    ]:
        assert selection.labels([one, one | changes], ["a", "b"]) == told


def test_partition_is_that_of_the_run_of_clients_and_classes_there_are(
    tmp_path, draw, monkeypatch
):
    seen = []
    monkeypatch.setattr(plots, "partition_heatmap", lambda *a: seen.append(a[1:]))
    rows = ["0,train,1,2,3", "0,test,9,9,9", "1,train,4,5,6", "1,test,9,9,9", ""]
    (tmp_path / "partition.csv").write_text("\n".join(["client,split,0,1,2", *rows]))
    draw("partition", str(tmp_path), "--clients", "1,0", "--classes", "2")
    ((shown, clients, classes, name),) = seen
    assert name == ""  # there is no config.json
    assert shown.tolist() == [[6], [3]] and (clients, classes) == ([1, 0], [2])
    assert selection.select(None, 3, "clients") == [0, 1, 2]
    with pytest.raises(UserError, match=r"--clients 3, -1: .* clients 0 to 2"):
        selection.select([3, 1, -1], 3, "clients")
    with pytest.raises(UserError, match="--classes names one twice"):
        selection.select([1, 1], 3, "classes")


def test_until_has_a_bar_for_each_method(make, draw, monkeypatch, tmp_path):
    """Of the first evaluation at the target, whatever comes before and after it."""

    def climb(rules, top):
        accuracies = {3: None, 5: top - 0.09, 10: top, 20: top - 0.05, 40: top + 0.05}
        return [
            {
                "round": r,
                "rules": {k: {"pooled": a} for k in rules},
                "bytes_total": {"up": 1000 * r, "down": 3000 * r},
            }
            for r, a in accuracies.items()
        ]

    runs = [
        make("f0", "fedproto", history=climb(["global", "head"], 0.82)),
        make("f1", "fedproto", seed=1, history=climb(["global", "head"], 0.86)),
        make("l", "local", history=climb(["head"], 0.82)),  # has no rule `global`
    ]
    svg = tmp_path / "x.svg"
    plot.main("plot", ["accuracy_over_rounds", str(svg), *runs, "--size=column"])
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', svg.read_text())
    assert float(width) == pytest.approx(72 * 3.25)
    assert "FedProto (2 seeds)" in svg.read_text()
    seen = []
    monkeypatch.setattr(plots, "rounds_to_target_bars", lambda *a: seen.append(a[1:]))
    draw("until", *runs, "--target", "86")
    bars, title = seen[0]
    assert title.startswith("until 86 % test accuracy, rule head, pooled")
    assert [b.label for b in bars] == ["FedProto (2 seeds)", "Local (1 seed)"]
    assert bars[0].rounds == [40, 10] and bars[0].sent == [160_000, 40_000]
    assert bars[0].best == pytest.approx(91) and bars[1].rounds == [40]
    draw("until", *runs, "--target", "99", "--rule", "global")
    assert [b.rounds for b in seen[1][0]] == [[], []]
    assert [b.seeds for b in seen[1][0]] == [2, 0]


def test_every_picture_says_what_it_is_and_has_known_options_and_its_place_in_pages():
    for name, picture in registry.FIGURES.items():
        assert picture.help.endswith("."), name
        assert set(picture.options) <= set(registry.OPTIONS), name
        assert picture.runs in ("one", "some", "none")
        assert f"`{name}`" in PAGE.read_text(), name
    assert set(registry.OLD_NAMES.values()) <= set(registry.FIGURES)
    assert not set(registry.OLD_NAMES) & set(registry.FIGURES)


# -------------------------------------------------------------- of formulas

ARGS = SimpleNamespace(network="mlp", image=(8, 8, 1))


def test_costs_are_the_nominal_formulas_on_log_axes(drawn):
    spec = Spec(100, 512)
    assert from_formulas.cost("fedproto", spec, ARGS) == 2 * 100 * 512
    assert from_formulas.cost("tinyproto", spec, ARGS) == 2 * 100 * 52
    assert from_formulas.cost("local", spec, ARGS) == 0
    more = from_formulas.cost("fedavg", Spec(101, 512), ARGS)
    assert more - from_formulas.cost("fedavg", spec, ARGS) == 2 * 513  # a head's row
    b = plots.band("fedproto", [10, 100], [[2e4, 2e5]])
    figure = drawn(plots.communication_cost, [("t", "K", [b]), ("u", "d", [b])])
    assert {panel.get_yscale() for panel in figure.axes} == {"log"}
    assert [panel.get_xlabel() for panel in figure.axes] == ["K", "d"]


@pytest.mark.long
def test_costs_need_no_run(draw, monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "communication_cost", lambda *a: seen.append(a))
    arguments = ["--methods", "fedproto,tinyproto", "--num_classes", "10,100"]
    draw("communication_cost", *arguments, "--at_dim", "500")
    by_K, by_d = seen[0][1]
    assert by_K[0] == "500 dimensions" and by_K[2][0].x == [10, 100]
    assert by_K[2][0].mean.tolist() == [10_000, 100_000]
    assert by_K[2][1].mean.tolist() == [1_000, 10_000]
    assert by_d[0] == "100 classes" and len(by_d[2]) == 2
    labels = ["FedProto", "TinyProto-FP, s = d / 10"]
    assert [band.label for band in by_K[2]] == labels


# ---------------------------------------------------------- bands, and sweeps


def against(drawn, places, rules=("head", "local")):
    """Accuracy against values of a field, a panel for each rule."""
    values = np.linspace(20, 80, 2 * len(places)).reshape(2, -1)
    band = plots.band("fedproto", places, values, "points")
    shown = {f"rule {rule}": [band] for rule in rules}
    return drawn(plots.bands, shown, "field", "accuracy").axes


SCALES = (
    ([0.1, 1.0, 10.0], "log"),
    ([1e-3, 1e-2, 1e-1, 1.0], "log"),
    ([5, 50, 500], "log"),
    ([0.01, 0.1, 0.5, 1.0], "log"),  # alpha
    ([1.0, 200.0, 400.0, 600.0, 800.0, 1000.0], "linear"),  # gamma
    ([50, 150, 250, 350, 450], "linear"),  # s
    ([20, 50, 100], "linear"),  # clients
    ([0.0, 0.5, 0.9], "linear"),
    ([0.0, 1e-4, 1e-3, 1e-2], "symlog"),
    ([-1.0, 0.001, 1.0], "linear"),
    ([3.0], "linear"),
    ([0.0, 5.0], "linear"),
)


def test_the_scale_fits_the_values_and_ticks_stay_apart(drawn):
    def check(places, scale):
        panels = against(drawn, places)
        assert {panel.get_xscale() for panel in panels} == {scale}
        for panel in panels:
            assert ticks(panel) == [f"{x:g}" for x in places] and apart(panel)
        sizes = {t.get_fontsize() for panel in panels for t in panel.get_xticklabels()}
        assert len(sizes) == 1

    check_every(SCALES, check)


def test_bands_share_a_colour_per_label_and_have_error_bars(drawn):
    """From the least to the largest; what is missing is left out."""
    c = plots.band("a", [1, 2, 3], [[1, np.nan, 5], [3, np.nan, np.nan]])
    np.testing.assert_array_equal(c.mean, [2, np.nan, 5])
    np.testing.assert_array_equal(c.low, [1, np.nan, 5])
    np.testing.assert_array_equal(c.high, [3, np.nan, 5])
    a = plots.band("a", [5, 50, 500], [[1, 2, 3], [2, 3, 4]], "points")
    b = plots.band("b", [], [[2.0]], "across")
    figure = drawn(plots.bands, {"one": [a], "two": [b, a]}, "s", "%")
    one, two = figure.axes
    assert titles(figure) == ["one", "two"] and legend(figure) == ["a", "b"]
    assert one.lines[0].get_color() == two.lines[1].get_color()
    assert two.lines[0] in dashed(two)
    (panel,) = against(drawn, [1.0, 2.0, 3.0], ["head"])
    assert panel.lines[0].get_linestyle() == "-"
    low, high = np.transpose([s[:, 1] for s in panel.collections[0].get_segments()])
    np.testing.assert_allclose(low, [20, 32, 44])
    np.testing.assert_allclose(high, [56, 68, 80])


@pytest.mark.parametrize(
    ("names", "angle"),
    [
        (["shuffled", "fixed"], 0),
        (["mlp,cnn4_d", "digits", "resnet8,mobilenet_v2"], 90),
    ],
)
def test_names_have_no_line_and_stay_apart(drawn, names, angle):
    panels = against(drawn, names)
    for panel in panels:
        assert panel.lines[0].get_linestyle() == "None"
        assert {tick.get_rotation() for tick in panel.get_xticklabels()} == {angle}
        assert apart(panel)
        assert panel.get_xlim() == (-0.5, len(names) - 0.5)
    assert boxes(panels[0])[-1].x1 < boxes(panels[1])[0].x0  # of neighbours, too


@pytest.mark.parametrize(
    ("columns", "angle"), [(["0.1", "1"], 0), (["digits", "resnet8,mobilenet_v2"], 90)]
)
def test_a_heatmap_has_every_number_a_dash_for_none_and_names(drawn, columns, angle):
    labels = ("method.lam", "method.upscale")
    values = np.array([[50.0, 60.0], [np.nan, 90.0]])
    figure = drawn(plots.grid_heatmap, values, ["1", "3"], columns, labels, "best")
    panel = figure.axes[0]
    texts = {t.get_position(): (t.get_text(), t.get_color()) for t in panel.texts}
    assert texts[0, 0] == ("50.00", "black") and texts[1, 0][0] == "60.00"
    assert texts[0, 1] == ("\u2013", "black") and texts[1, 1] == ("90.00", "white")
    assert (panel.get_xlabel(), panel.get_ylabel()) == labels
    assert ticks(panel, "y") == ["1", "3"] and ticks(panel) == columns
    assert {t.get_rotation() for t in panel.get_xticklabels()} == {angle}
    assert apart(panel)


def test_lines_of_a_sweep_are_named_by_the_other_field_as_ticks_are(
    tmp_path, bands, monkeypatch
):
    """The best of rule head is i / 10 in cell i."""
    monkeypatch.setattr(plots, "grid_heatmap", lambda *_: None)
    c = config.experiment("fedproto", "digits")
    c.update_from_flattened_dict({"data.clients": 3, "model.group": "mlp"})
    given = ("method.lam=1,2.5", "method.upscale=1,3", "seed=0,1")
    whole, summaries = plan(c, parse_axes(c, given), tmp_path), {}
    for i, cell in enumerate(whole.cells):
        cell.path.mkdir()
        (cell.path / "config.json").write_text(cell.config.to_json())
        digest = {"best": i / 10, "final": 0.0, "mean_last": 0.0, "last_n": 1}
        rules = {"head": {"pooled": digest, "client_mean": digest}}
        made = {"status": "finished", "rounds": 60, "rules": rules}
        records.write_json(cell.path / "summary.json", made)
        summaries[cell.name] = made
    outputs.pictures(whole, summaries)
    by_lam, by_upscale = (shown["rule head"] for shown, *_ in bands)
    assert [b.label for b in by_lam] == ["FedProto (upscale 1)", "FedProto (upscale 3)"]
    assert [b.label for b in by_upscale] == ["FedProto (lam 1)", "FedProto (lam 2.5)"]
    assert by_lam[1].x == [1.0, 2.5]
    np.testing.assert_allclose(by_lam[1].mean, [25, 65])  # cells 2, 3 and 6, 7
    np.testing.assert_allclose(by_lam[1].low, [20, 60])
    np.testing.assert_allclose(by_lam[1].high, [30, 70])
