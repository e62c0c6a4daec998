"""Pictures of several runs from their records, and of the papers' formulas."""

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from support import drawing

from jaxproto import config, plots
from jaxproto.cli import plot
from jaxproto.errors import UserError
from jaxproto.figures import from_formulas, registry, selection
from jaxproto.storage import records
from jaxproto.types import Spec


@pytest.fixture
def drawn(tmp_path):
    return partial(drawing.draw, tmp_path / "x.png")


@pytest.fixture
def bands(monkeypatch):
    """What a command would draw: titles, bands and names of the axes."""
    seen = []
    monkeypatch.setattr(plots, "bands", lambda *a, **k: seen.append(a[1:]))
    return seen


@pytest.fixture
def make(tmp_path):
    """Writes the record of a finished run; returns its folder as a text."""

    def run(name, method, accuracy, seed=0, **fields):
        made = config.experiment(method, "digits")
        fields = {k.replace("__", "."): v for k, v in fields.items()}
        made.update_from_flattened_dict({"seed": seed, **fields})
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(made.to_json())
        both = {"pooled": accuracy, "client_mean": accuracy / 2}
        told = {k: {"final": v, "best": v + 0.1} for k, v in both.items()}
        summary = {"status": "finished", "rounds": made.rounds}
        summary["rules"] = {"head": told, "local": told}
        records.write_json(path / "summary.json", summary)
        for r in (1, 3):
            row = {"round": r, "rules": {"head": {"pooled": accuracy * r / 3}}}
            row["every_round"] = {"alignment_iterations": [10.0 + seed] * (r - r // 2)}
            records.append(path / "metrics.jsonl", row)
        return str(path)

    return run


def draw(tmp_path, name, *arguments):
    plot.main("plot", [name, str(tmp_path / "out.png"), *arguments])


def test_a_band_is_mean_least_and_largest_and_leaves_out_what_is_missing():
    b = plots.band("a", [1, 2, 3], [[1, np.nan, 5], [3, np.nan, np.nan]])
    np.testing.assert_array_equal(b.mean, [2, np.nan, 5])
    np.testing.assert_array_equal(b.low, [1, np.nan, 5])
    np.testing.assert_array_equal(b.high, [3, np.nan, 5])


def test_accuracy_over_rounds_is_the_mean_over_seeds(tmp_path, make, bands):
    runs = [make(f"a-{s}", "fedproto", 0.6 + 0.3 * s, s) for s in (0, 1)]
    draw(tmp_path, "accuracy_over_rounds", *runs, make("b", "local", 0.3))
    ((shown, xlabel, _, _),) = bands
    ours, other = shown["rule head"]
    assert (ours.label, other.label, xlabel) == (
        "FedProto (2 seeds)",
        "Local (1 seed)",
        "round",
    )
    assert ours.x == [1, 3]
    np.testing.assert_allclose(ours.mean, [25, 75])
    np.testing.assert_allclose([ours.low, ours.high], [[20, 60], [30, 90]])


def test_accuracy_against_a_field_has_a_line_per_series(tmp_path, make, bands):
    runs = [
        make(f"s{s}-{seed}", "tinyproto", s / 100 + seed / 10, seed, method__s=s)
        for s in (50, 5)
        for seed in (0, 1)
    ]
    runs.append(make("other", "tinyproto", 0.7, method__s=5, method__mu=0.5))
    runs.append(make("all", "fedproto", 0.9))
    arguments = ["--field", "method.s", "--rule", "head"]
    draw(tmp_path, "accuracy_against_field", *runs, *arguments)
    first, other, across = bands[0][0]["rule head"]
    assert (first.x, first.kind) == ([5, 50], "points")
    np.testing.assert_allclose(first.mean, [10, 55])
    np.testing.assert_allclose([first.low, first.high], [[5, 50], [15, 60]])
    assert other.label == "TinyProto-FP (mu 0.5)" and other.x == [5]
    assert (across.label, across.kind) == ("FedProto", "across")
    np.testing.assert_allclose(across.mean, [90])
    draw(tmp_path, "accuracy_against_field", *runs, *arguments, "--statistic", "best")
    np.testing.assert_allclose(bands[1][0]["rule head"][0].mean, [20, 65])


def test_two_fields_share_an_axis(tmp_path, make, bands):
    runs = [make(f"s{s}", "tinyproto", 0.5, method__s=s) for s in (0, 32)]
    runs += [make(f"d{d}", "fedproto", 0.4, model__feat_dim=d) for d in (8, 32)]
    field = ["--field", "method.s,model.feat_dim"]
    draw(tmp_path, "accuracy_against_field", *runs, *field)
    tiny, whole = bands[0][0]["rule local"]
    assert (tiny.label, tiny.x) == ("TinyProto-FP (s)", [7, 32])  # 0: a tenth of 64
    assert (whole.label, whole.x) == ("FedProto (feat_dim)", [8, 32])


def test_a_field_of_words_has_its_words_on_the_axis(tmp_path, make, bands):
    runs = [make(k, "fedproto", 0.5, data__partition=k) for k in ("iid", "dirichlet")]
    draw(tmp_path, "accuracy_against_field", *runs, "--field", "data.partition")
    assert bands[0][0]["rule head"][0].x == ["dirichlet", "iid"]


def test_iterations_are_those_of_every_round(tmp_path, make, bands):
    runs = [make(f"a-{s}", "protonorm", 0.5, s) for s in (0, 2)]
    draw(tmp_path, "alignment_iterations", *runs)
    (shown,) = bands[0][0][""]
    assert shown.x == [1, 2, 3]
    assert shown.mean.tolist() == [11] * 3 and shown.high.tolist() == [12] * 3


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (
            ["accuracy_against_field", "--field", "method.ss"],
            "unknown field 'method.ss'",
        ),
        (["accuracy_against_field"], "required: --field"),
        (["accuracy_over_rounds", "--rule", "hed"], "unknown rule 'hed'"),
        (["partition"], "is no partition of a run"),
        (["partition", "--classes", "a"], "'a' is no list of numbers such as 2,5"),
        (["margins"], "holds no checkpoint, which networks and prototypes are read"),
    ],
)
def test_what_a_command_cannot_use_is_named(tmp_path, make, arguments, what):
    name, *rest = arguments
    with pytest.raises(UserError, match=what):
        draw(tmp_path, name, make("a", "fedproto", 0.5), *rest)
    assert not (tmp_path / "out.png").exists()


def test_an_unfinished_run_is_named(tmp_path, make):
    path = make("a", "fedproto", 0.5)
    records.write_json(tmp_path / "a" / "summary.json", {"status": "diverged"} | RULES)
    with pytest.raises(UserError, match="is not finished; leave it out"):
        draw(tmp_path, "accuracy_against_field", path, "--field", "rounds")


RULES = {"rounds": 3, "rules": {}}


def test_a_run_that_was_not_watched_is_named(tmp_path, make):
    path = make("a", "fedproto", 0.5)
    rows = [json.dumps({"round": 1, "rules": {"head": {}}})]
    (tmp_path / "a" / "metrics.jsonl").write_text("\n".join(rows))
    with pytest.raises(UserError, match="no alignment_iterations in its records"):
        draw(tmp_path, "alignment_iterations", path)


def test_clients_and_classes_are_chosen_among_those_there_are():
    assert selection.chosen(None, 3, "clients") == [0, 1, 2]
    assert selection.chosen([2, 0], 3, "classes") == [2, 0]
    with pytest.raises(UserError, match=r"--clients 3, -1: .* clients 0 to 2"):
        selection.chosen([3, 1, -1], 3, "clients")
    with pytest.raises(UserError, match="--classes names one twice"):
        selection.chosen([1, 1], 3, "classes")


def test_partition_is_that_of_the_run(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "partition_heatmap", lambda *a: seen.append(a[1:]))
    text = (
        "client,split,0,1,2\n0,train,1,2,3\n0,test,9,9,9\n1,train,4,5,6\n1,test,9,9,9\n"
    )
    (tmp_path / "partition.csv").write_text(text)
    draw(tmp_path, "partition", str(tmp_path), "--clients", "1,0", "--classes", "2")
    ((shown, clients, classes, name),) = seen
    assert name == ""  # there is no config.json
    assert shown.tolist() == [[6], [3]] and (clients, classes) == ([1, 0], [2])


def test_bands_share_a_colour_per_label_and_a_scale_that_fits(drawn):
    a = plots.band("a", [5, 50, 500], [[1, 2, 3], [2, 3, 4]], "points")
    b = plots.band("b", [], [[2.0]], "across")
    figure = drawn(plots.bands, {"one": [a], "two": [b, a]}, "s", "%")
    one, two = figure.axes
    assert one.get_xscale() == "log" and one.get_title() == "one"
    assert [t.get_text() for t in one.get_xticklabels()] == ["5", "50", "500"]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b"]
    assert one.lines[0].get_color() == two.lines[1].get_color()
    assert two.lines[0].get_linestyle() == "--"


ARGS = SimpleNamespace(network="mlp", image=(8, 8, 1))


def test_costs_are_the_nominal_formulas():
    spec = Spec(100, 512)
    assert from_formulas.cost("fedproto", spec, ARGS) == 2 * 100 * 512
    assert from_formulas.cost("tinyproto", spec, ARGS) == 2 * 100 * 52
    assert from_formulas.cost("local", spec, ARGS) == 0
    more = from_formulas.cost("fedavg", Spec(101, 512), ARGS)
    assert more - from_formulas.cost("fedavg", spec, ARGS) == 2 * 513  # a head's row


@pytest.mark.long
def test_costs_need_no_run(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "communication_cost", lambda *a: seen.append(a))
    arguments = ["--methods", "fedproto,tinyproto", "--num_classes", "10,100"]
    draw(tmp_path, "communication_cost", *arguments, "--at_dim", "500")
    by_K, by_d = seen[0][1]
    assert by_K[0] == "500 dimensions" and by_K[2][0].x == [10, 100]
    assert by_K[2][0].mean.tolist() == [10_000, 100_000]
    assert by_K[2][1].mean.tolist() == [1_000, 10_000]
    assert by_d[0] == "100 classes" and len(by_d[2]) == 2


def test_costs_are_drawn_on_log_axes(drawn):
    b = plots.band("fedproto", [10, 100], [[2e4, 2e5]])
    figure = drawn(plots.communication_cost, [("t", "K", [b]), ("u", "d", [b])])
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert [axes.get_xlabel() for axes in figure.axes] == ["K", "d"]


def test_every_picture_says_what_it_is_and_has_known_options():
    for name, picture in registry.PICTURES.items():
        assert picture.help.endswith("."), name
        assert set(picture.options) <= set(registry.OPTIONS), name
        assert picture.runs in ("one", "some", "none")
    assert set(registry.FORMER.values()) <= set(registry.PICTURES)
    assert not set(registry.FORMER) & set(registry.PICTURES)
