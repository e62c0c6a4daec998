"""Curves and bars from the records of runs and sweeps, and of the papers' formulas."""

import re
from pathlib import Path

import numpy as np
import pytest
from support import drawing
from support.drawing import apart, dashed, legend, lines, ticks, titles
from support.every import check_every
from support.refusal import refused
from support.workdirs import folder

import jaxproto
from jaxproto.lab import plots
from jaxproto.lab.cli import plot
from jaxproto.lab.figures import arguments as selection

drawn = drawing.drawn


@pytest.fixture
def bands(monkeypatch):
    """Titles, bands and names of the axes that a command would draw."""
    seen = []
    monkeypatch.setattr(plots, "bands", lambda *a, **k: seen.append(a[1:]))
    return seen


def record(r, accuracies, up=1, down=1):
    """Record of an evaluation: pooled accuracies of rules; bytes are of a round."""
    rules = {rule: {"pooled": accuracy} for rule, accuracy in accuracies.items()}
    return {"round": r, "rules": rules, "bytes_total": {"up": up * r, "down": down * r}}


def watched(r, accuracy, seed):
    """Record of an evaluation that says what the alignments since round 1 took."""
    every = {"alignment_iterations": [10.0 + seed] * (r - r // 2)}
    return record(r, {"head": accuracy * r / 3}) | {"every_round": every}


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
        plot.main("plot", [name, f"--out={tmp_path / 'out.png'}", *arguments])

    return f


def sending(up, down, rules=("head", "local"), top=0.8):
    """Three evaluations of a run that moves so many bytes a round."""

    def accuracies(r):
        return {rule: top * r / 4 - 0.1 * i for i, rule in enumerate(rules)}

    return [record(r, accuracies(r), up, down) for r in (1, 2, 4)]


def test_bytes_have_a_line_per_rule_of_one_run_and_a_panel_per_rule_of_several(drawn):
    runs = {"protonorm-digits-seed0": [sending(1000, 4000)]}
    figure = drawn(plots.accuracy_against_bytes, runs)
    (one,) = figure.axes
    curve = lines(one)["local"]
    np.testing.assert_allclose(curve.get_xydata(), [[5, 10], [10, 30], [20, 70]])
    assert one.get_xlabel() == "sent so far, both ways (kB)"
    assert titles(figure) == ["protonorm-digits-seed0"]
    assert legend(figure) == ["head", "local"] and one.get_xscale() == "linear"
    gap = sending(200_000, 4_000_000, ("head", "global"))
    gap[1]["rules"]["head"]["pooled"] = None
    runs = {"fedproto": [sending(2_000_000, 3_000_000)], "tinyproto": [gap]}
    figure = drawn(plots.accuracy_against_bytes, runs)
    assert titles(figure) == ["rule head", "rule local", "rule global"]
    head, _, all_classes = figure.axes
    np.testing.assert_allclose(lines(head)["fedproto"].get_xdata(), [5, 10, 20])
    missing = np.isnan(lines(head)["tinyproto"].get_ydata())
    assert missing.tolist() == [False, True, False]
    assert head.get_xlabel() == "sent so far, both ways (MB)"
    assert list(lines(all_classes)) == ["tinyproto"]
    assert legend(figure) == ["fedproto", "tinyproto"]


@pytest.mark.long
def test_bytes_far_apart_have_a_log_scale_and_none_are_a_line_across(drawn):
    small = [sending(1, 0, top=0.8), sending(3, 0, top=0.4)]
    local = [sending(0, 0, ["head"], top=0.6)]
    for sent, scale in ((41, "log"), (40, "linear")):
        runs = {"small": small, "large": [sending(sent, 0)], "local": local}
        panel = drawn(plots.accuracy_against_bytes, runs, rule="head").axes[0]
        assert panel.get_xscale() == scale
        across = lines(panel)["local (sends nothing)"]
        np.testing.assert_allclose(across.get_xydata(), [[0, 60], [1, 60]])
        curve = lines(panel)["small"]  # a mean over seeds
        np.testing.assert_allclose(curve.get_xydata(), [[2, 15], [4, 30], [8, 60]])


def test_accuracy_over_rounds_is_the_mean_over_seeds(make, draw, bands):
    runs = [make(f"a-{s}", "fedproto", 0.6 + 0.3 * s, s) for s in (0, 1)]
    runs.append(make("b", "local", 0.3))
    draw("accuracy", *runs)
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
    # Two fields share an axis; words are places, too.
    runs = [make(f"s{s}", "tinyproto", method__s=s) for s in (0, 32)]
    runs += [make(f"d{d}", "fedproto", model__feat_dim=d) for d in (8, 32)]
    draw("accuracy_against_field", *runs, "--field", "method.s,model.feat_dim")
    tiny, whole = bands[1][0]["rule local"]
    assert (tiny.label, tiny.x) == ("TinyProto-FP (s)", [32, 50])  # 0: a tenth of 500
    assert (whole.label, whole.x) == ("FedProto (feat_dim)", [8, 32])
    last = Path(runs[-1]) / "config.json"  # a float may be saved as an integer
    last.write_text(last.read_text().replace('"lam": 10.0', '"lam": 10'))
    draw("accuracy_against_field", *runs[2:], "--field", "model.feat_dim")
    assert bands[2][0]["rule head"][0].x == [8, 32]
    runs = [make(k, "fedproto", data__partition=k) for k in ("iid", "dirichlet")]
    runs.append(make("left_out", "fedproto", status="diverged", data__partition="all"))
    draw("accuracy_against_field", *runs, "--field", "data.partition")
    assert bands[3][0]["rule head"][0].x == ["dirichlet", "iid"]


def test_iterations_are_those_of_every_round(make, draw, bands, tmp_path):
    for s in (0, 2):  # the first record is of an older version
        history = [record(1, {"head": 0.5}), watched(3, 0.5, s)]
        make(f"runs/a-{s}", "protonorm", seed=s, history=history)
    draw("iterations", str(tmp_path / "runs"))
    (shown,) = bands[0][0][""]
    assert shown.x == [2, 3]
    assert shown.mean.tolist() == [11] * 2 and shown.high.tolist() == [12] * 2


def test_arguments_that_cannot_be_used_are_one_line(make, tmp_path):
    here = {"data__name": "digits", "data__clients": 4, "model__group": "mlp"}
    a, b = make("a", "fedproto", **here), make("b", "local")
    diverged = make("c", "fedproto", status="diverged")
    blind = make("d", "fedproto", history=[{"round": 1, "rules": {"head": {}}}])
    other = {"seed": 1, "history": [watched(2, 0.5, 0)]}
    seeds = make("e", "fedproto", **other), make("f", "fedproto")
    unknown = record(1, {"head": 0.5}) | {"bytes_total": {"up": None}}
    damaged = make("g", "fedproto", history=[unknown])
    (tmp_path / "there.png").write_text("mine")

    def check(what, name, *arguments, out="out.png"):
        with refused(what) as caught:
            plot.main("plot", [name, f"--out={tmp_path / out}", *arguments])
        assert "\n" not in str(caught.value)
        assert out == "there.png" or not (tmp_path / out).exists()

    field, each = "accuracy_against_field", "--statistic=client_best"
    cases = [
        ("unknown field 'method.ss'", field, a, "--field", "method.ss"),
        ("is not finished; leave it out", field, diverged, "--field", "rounds"),
        ("no run has statistic 'client_best'", field, a, "--field=rounds", each),
        ("is no partition of a run", "partition", a),
        ("'a' is no list of numbers such as 2,5", "partition", a, "--classes", "a"),
        ("holds no checkpoint, which networks and prototypes are", "margins", a),
        ("no alignment_iterations in its records", "iterations", blind),
        (f"a picture of one run: name one of {a}, {b}, ", "partition", str(tmp_path)),
        ("has no bytes_total in the record of round 1", "bytes", blind),
        ("no record of a run: bytes_total.up is 'None'", "bytes", damaged),
        ("--samples is 0 and --perplexity 30: give", "tsne", a, "--samples=0"),
        ("--perplexity -1: give", "tsne", a, "--perplexity=-1"),
        ("seeds of run 'FedProto' share no evaluated round", "bytes", *seeds),
        ("share no evaluated round", "accuracy", *seeds),
        ("run 'FedProto' has no simulated seconds in its", "time", seeds[0]),
        ("given twice", "bytes", a, a),
        ("picture 'accuracies'. Did you mean 'accuracy'?", "accuracies", a, b),
    ]
    check_every(cases, check)
    check("exists already: delete it or name", "bytes", a, out="there.png")
    check("does not end in .png, .pdf or .svg", "bytes", a, out="out.gif")
    check("cannot write", "bytes", a, out="no/out.png")


def test_a_picture_of_a_sweep_has_the_name_of_its_kind(
    make, bands, tmp_path, monkeypatch, capsys
):
    for lam in (1.0, 5.0):
        make(f"sweep/{lam:g}", "fedproto", method__lam=lam)
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    kind = "accuracy_against_field"
    plot.main("plot", [kind, "sweep", "runs", "--field", "method.lam"])
    said = (f"written to {kind}.png\n", "skipped, as it holds no run: runs\n")
    assert capsys.readouterr() == said
    assert bands[0][0]["rule head"][0].x == [1.0, 5.0]


def test_runs_of_a_method_have_their_differences_as_names():
    one = {"method.name": "fedproto", "method.lam": 1.0, "data.name": "digits"}
    many = {f"method.field{i}": i for i in range(9)}
    for changes, told in [
        ({"method.name": "local"}, ["FedProto", "Local"]),
        ({"method.lam": 2.5}, ["FedProto (lam 1)", "FedProto (lam 2.5)"]),
        ({"data.name": "tfds:mnist"}, ["FedProto (digits)", "FedProto (mnist)"]),
        (many, ["FedProto (a)", "FedProto (b)"]),
    ]:
        assert selection.labels([one, one | changes], ["a", "b"]) == told


def test_groups_of_seeds_have_names_of_their_own(make):
    many = {"data__alpha": 0.77, "data__min_size": 7, "local__batch_size": 17}
    many["optimizer__learning_rate"] = 0.033
    runs = [make(f"run-{i}", "fedproto", seed=i) for i in (0, 1)]
    runs += [make(f"run-{i}", "fedproto", seed=i, **many) for i in (2, 3)]
    groups = selection.group_seeds(list(map(Path, runs)))
    assert list(groups) == ["FedProto (run-0)", "FedProto (run-2)"]


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
    with refused("--clients 3, -1: ", " clients 0 to 2"):
        selection.select([3, 1, -1], 3, "clients")
    with refused("--classes names one twice"):
        selection.select([1, 1], 3, "classes")


def test_until_has_a_bar_for_each_method(make, draw, monkeypatch, tmp_path):
    """A bar is of the first evaluation at the target, whatever is before and after."""

    def climb(rules, top):
        accuracies = {3: None, 5: top - 0.09, 10: top, 20: top - 0.05, 40: top + 0.05}
        told = {r: dict.fromkeys(rules, a) for r, a in accuracies.items()}
        return [record(r, each, 1000, 3000) for r, each in told.items()]

    runs = [
        make("f0", "fedproto", history=climb(["global", "head"], 0.82)),
        make("f1", "fedproto", seed=1, history=climb(["global", "head"], 0.86)),
        make("l", "local", history=climb(["head"], 0.82)),  # has no rule `global`
    ]
    svg = tmp_path / "x.svg"
    plot.main("plot", ["accuracy", f"--out={svg}", *runs, "--size=column"])
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', svg.read_text())
    assert float(width) == pytest.approx(72 * 3.25)
    seen = []
    monkeypatch.setattr(plots, "rounds_to_target_bars", lambda *a: seen.append(a[1:]))
    draw("until", *runs, "--target", "86")
    (ours, other), _ = seen[0]
    assert (ours.label, other.label) == ("FedProto (2 seeds)", "Local (1 seed)")
    assert ours.rounds == [40, 10] and ours.sent == [160_000, 40_000]
    assert ours.best == pytest.approx(91) and other.rounds == [40]
    draw("until", *runs, "--target", "99", "--rule", "global")
    assert [(b.rounds, b.seeds) for b in seen[1][0]] == [([], 2), ([], 0)]


def test_costs_are_the_nominal_formulas_and_need_no_run(draw, monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "communication_cost", lambda *a: seen.append(a))
    arguments = ["--methods", "fedproto,tinyproto,fedavg", "--num_classes", "10,100"]
    arguments += ["--at_dim", "500", "--feat_dims", "32,512"]
    arguments += ["--network", "mlp", "--image", "8,8,1"]
    draw("communication_cost", *arguments)
    by_K, by_d = seen[0][1]
    assert by_K[0] == "500 dimensions" and by_K[2][0].x == [10, 100]
    assert by_K[2][0].mean.tolist() == [10_000, 100_000]
    assert by_K[2][1].mean.tolist() == [1_000, 10_000]
    assert np.diff(by_K[2][2].mean) == 2 * 90 * 501  # rows of the head
    assert by_d[0] == "100 classes" and by_d[2][0].x == [32, 512]


SCALES = (
    ([0.01, 0.1, 0.5, 1.0], "log"),  # alpha
    ([1.0, 200.0, 400.0, 600.0, 800.0, 1000.0], "linear"),  # gamma
    ([0.0, 1e-4, 1e-3, 1e-2], "symlog"),
    ([-1.0, 0.001, 1.0], "linear"),
)


def test_the_scale_fits_the_values_and_ticks_stay_apart(drawn):
    def check(places, scale):
        values = np.linspace(20, 80, 2 * len(places)).reshape(2, -1)
        band = plots.band("fedproto", places, values, "points")
        for panel in drawn(plots.bands, {"a": [band], "b": [band]}, "x", "y").axes:
            assert panel.get_xscale() == scale
            assert ticks(panel) == [f"{x:g}" for x in places] and apart(panel)

    check_every(SCALES, check)


def test_bands_share_a_colour_per_label_and_have_error_bars(drawn):
    """From the least to the largest; missing values are left out."""
    a = plots.band("a", [5, 50, 500], [[1, 2, 3], [2, np.nan, 4]], "points")
    b = plots.band("b", [], [[2.0]], "across")
    figure = drawn(plots.bands, {"one": [a], "two": [b, a]}, "s", "%")
    one, two = figure.axes
    assert legend(figure) == ["a", "b"]
    assert one.lines[0].get_color() == two.lines[1].get_color()
    assert two.lines[0] in dashed(two) and one.lines[0].get_linestyle() == "-"
    low, high = np.transpose([s[:, 1] for s in one.collections[0].get_segments()])
    np.testing.assert_allclose([low, high], [[1, 2, 3], [2, 2, 4]])


def test_a_heatmap_has_every_number_a_dash_for_none_and_names(drawn):
    labels = ("method.lam", "method.upscale")
    values = np.array([[50.0, 60.0], [np.nan, 90.0]])
    columns = ["digits", "resnet8,mobilenet_v2"]
    panel = drawn(plots.grid_heatmap, values, ["1", "3"], columns, labels, "").axes[0]
    texts = {t.get_position(): (t.get_text(), t.get_color()) for t in panel.texts}
    assert texts[0, 0] == ("50.00", "black") and texts[1, 0][0] == "60.00"
    assert texts[0, 1] == ("\u2013", "black") and texts[1, 1] == ("90.00", "white")
    assert ticks(panel, "y") == ["1", "3"] and ticks(panel) == columns
    assert apart(panel)


def test_python_draws_what_the_command_draws(make, bands, tmp_path):
    runs = make("a", "fedproto"), make("b", "local")
    out = jaxproto.plot("accuracy", *runs, out=tmp_path / "a.png", rule="head")
    plot.main("plot", ["accuracy", *runs, f"--out={tmp_path / 'b.png'}", "--rule=head"])
    assert out == tmp_path / "a.png" and len(bands) == 2
    assert str(bands[0]) == str(bands[1])


def test_options_from_python_are_checked(make, tmp_path):
    run = make("a", "fedproto")
    cases = [
        ("unknown picture 'acuracy'. Did you mean 'accuracy'?", "acuracy", [run], {}),
        ("unknown option of accuracy 'rul'. Did", "accuracy", [run], {"rul": "head"}),
        ("unknown average 'mean'", "accuracy", [run], {"average": "mean"}),
        ("until needs the option target", "until", [run], {}),
        ("is a picture of runs: name the folder of one", "accuracy", [], {}),
        ("unknown size 'wide'", "accuracy", [run], {"size": "wide"}),
        ("does not end in .png, .pdf or .svg", "accuracy", [run], {"out": "a.gif"}),
    ]

    def check(what, name, runs, options):
        with refused(what):
            jaxproto.plot(name, *runs, **options)

    check_every(cases, check)
