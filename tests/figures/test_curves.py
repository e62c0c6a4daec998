"""Accuracy against bytes, and the command that draws it for several runs."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from support import drawing

from jaxproto import config, plots
from jaxproto.cli import plot
from jaxproto.errors import UserError

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it


@pytest.fixture
def drawn(tmp_path):
    return partial(drawing.draw, tmp_path / "x.png")


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


def lines(axes):
    """The curves of a panel by their names."""
    return {line.get_label(): line for line in axes.lines}


def names(figure):
    """The legend beside the panels."""
    return [t.get_text() for t in figure.legends[0].get_texts()]


def test_bytes_of_one_run_have_a_line_per_rule(drawn):
    runs = {"protonorm-digits-seed0": [sending(1000, 4000)]}
    figure = drawn(plots.accuracy_against_bytes, runs)
    (axes,) = figure.axes
    curve = lines(axes)["local"]
    np.testing.assert_allclose(curve.get_xydata(), [[5, 10], [10, 30], [20, 70]])
    assert axes.get_xlabel() == "sent so far, both ways (kB)"
    assert axes.get_title() == "protonorm-digits-seed0"
    assert names(figure) == ["head", "local"] and axes.get_xscale() == "linear"


def test_bytes_of_several_runs_have_a_panel_per_rule_and_a_line_per_run(drawn):
    runs = {
        "fedproto": [sending(2_000_000, 3_000_000)],
        "tinyproto": [sending(200_000, 4_000_000, ("head", "local", "global"))],
    }
    figure = drawn(plots.accuracy_against_bytes, runs)
    assert [a.get_title() for a in figure.axes] == [
        f"rule {rule}" for rule in ("head", "local", "global")
    ]
    head, _, all_classes = figure.axes
    np.testing.assert_allclose(lines(head)["fedproto"].get_xdata(), [5, 10, 20])
    assert head.get_xlabel() == "sent so far, both ways (MB)"
    assert list(lines(all_classes)) == ["tinyproto"]
    assert names(figure) == ["fedproto", "tinyproto"]
    colours = [lines(axes)["tinyproto"].get_color() for axes in figure.axes]
    assert len(set(colours)) == 1 != lines(head)["fedproto"].get_color()


def test_bytes_far_apart_get_a_log_scale(drawn):
    runs = {"small": [sending(10, 0)], "large": [sending(150, 60)]}
    figure = drawn(plots.accuracy_against_bytes, runs, rule="head")
    assert [axes.get_xscale() for axes in figure.axes] == ["log"]
    near = {"small": [sending(10, 0)], "large": [sending(100, 60)]}
    figure = drawn(plots.accuracy_against_bytes, near, rule="head")
    assert [axes.get_xscale() for axes in figure.axes] == ["linear"]


def test_a_run_that_sends_nothing_is_a_line_across_at_its_last_accuracy(drawn):
    runs = {
        "fedproto": [sending(10, 20)],
        "local": [sending(0, 0, ["head"], top=0.6)],
    }
    axes = drawn(plots.accuracy_against_bytes, runs).axes[0]
    across = lines(axes)["local (sends nothing)"]
    np.testing.assert_allclose(across.get_xydata(), [[0, 60], [1, 60]])
    assert across.get_transform() == axes.get_yaxis_transform(which="grid")
    alone = drawn(plots.accuracy_against_bytes, {"local": runs["local"]}).axes[0]
    assert list(lines(alone)) == ["head (sends nothing)"]


def test_an_accuracy_that_is_missing_leaves_a_gap(drawn):
    records = sending(10, 20, ["head"])
    records[1]["rules"]["head"]["pooled"] = None
    curve = lines(drawn(plots.accuracy_against_bytes, {"a": [records]}).axes[0])["head"]
    assert np.isnan(curve.get_ydata()).tolist() == [False, True, False]


def test_more_runs_than_colours_differ_in_their_dashes(drawn):
    runs = {f"run{i}": [sending(10 + i, 20, ["head"])] for i in range(14)}
    axes = drawn(plots.accuracy_against_bytes, runs).axes[0]
    looks = {(c.get_color(), str(c._unscaled_dash_pattern)) for c in axes.lines}
    assert len(looks) == 14 > len({colour for colour, _ in looks})


def test_a_run_without_evaluations_or_bytes_is_named(tmp_path):
    out = tmp_path / "x.png"
    with pytest.raises(UserError, match="run 'b' has no evaluation yet"):
        plots.accuracy_against_bytes(out, {"a": [sending(1, 1)], "b": [[]]})
    with pytest.raises(UserError, match=r"run 'old' has no bytes_total in .* round 10"):
        plots.accuracy_against_bytes(out, {"old": [[{"round": 10, "rules": {}}]]})
    with pytest.raises(UserError, match=r"unknown rule 'locl'\. Did you mean 'local'"):
        plots.accuracy_against_bytes(out, {"a": [sending(1, 1)]}, "locl")
    assert not out.exists()


@pytest.fixture
def workdirs(tmp_path):
    """Two work directories of one name."""
    paths = [tmp_path / name / "seed0" for name in ("fedproto", "tinyproto")]
    for i, path in enumerate(paths):
        path.mkdir(parents=True)
        made = config.experiment(path.parent.name, "digits")
        (path / "config.json").write_text(made.to_json())
        text = [json.dumps(r) for r in sending(10 + i, 20)]
        (path / "metrics.jsonl").write_text("\n".join(text))
    return [str(path) for path in paths]


def test_the_command_draws_several_work_directories(tmp_path, workdirs, monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "accuracy_against_bytes", lambda *a: seen.append(a))
    out = str(tmp_path / "out.png")
    plot.main("plot", ["accuracy_against_bytes", out, *workdirs, "--rule", "head"])
    ((path, runs, rule),) = seen
    assert (str(path), rule) == (out, "head")
    assert runs == {
        "FedProto": [sending(10, 20)],
        "TinyProto-FP": [sending(11, 20)],
    }
    plot.main("plot", ["bytes", out, workdirs[0]])
    assert list(seen[1][1]) == ["FedProto"] and seen[1][2] is None


def test_bytes_of_seeds_are_their_mean_with_a_band(drawn):
    runs = {
        "a": [sending(10, 0, top=0.8), sending(30, 0, top=0.4)],
        "b": [sending(1, 1)],
    }
    axes = drawn(plots.accuracy_against_bytes, runs, "head").axes[0]
    curve = lines(axes)["a"]
    np.testing.assert_allclose(curve.get_xydata(), [[20, 15], [40, 30], [80, 60]])
    (band,) = axes.collections
    extent = band.get_datalim(axes.transData)
    assert (extent.ymin, extent.ymax) == pytest.approx((10, 80))
    with pytest.raises(UserError, match="share no evaluated round"):
        plots.accuracy_against_bytes(
            "x.png", {"a": [runs["a"][0][:1], runs["a"][0][1:]]}
        )


def test_curves_that_coincide_are_both_seen(drawn):
    records = sending(10, 20, ["global", "global_own"], top=0.8)
    for row in records:
        row["rules"]["global_own"] = row["rules"]["global"]
    axes = drawn(plots.accuracy_against_bytes, {"a": [records]}).axes[0]
    below, above = axes.lines
    np.testing.assert_array_equal(below.get_xydata(), above.get_xydata())
    assert below.get_linestyle() == "-" and above.get_linestyle() == "--"
    assert below.get_color() != above.get_color()
    assert below.get_marker() != above.get_marker()
    assert above.get_markerfacecolor() == "none"  # what is below is seen through it
    assert below.get_markersize() < above.get_markersize()


def test_the_command_runs_on_its_own_without_a_word(tmp_path, workdirs):
    out = tmp_path / "out.png"
    call = [sys.executable, "-m", "jaxproto", "plot", "accuracy_against_bytes", out]
    done = subprocess.run([*call, *workdirs], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.stat().st_size > 10_000


def test_the_command_names_what_it_cannot_use(tmp_path, workdirs):
    out, draw = str(tmp_path / "out.png"), "accuracy_against_bytes"
    there = tmp_path / "there.png"
    there.write_text("mine")
    for arguments, what in [
        ([draw, str(there), *workdirs], "is there already: delete it or name"),
        ([draw, out, str(tmp_path)], "holds no config.json"),
        ([draw, out, workdirs[0], workdirs[0]], "given twice"),
        (
            [draw, str(tmp_path / "out.gif"), *workdirs],
            "does not end in .png, .pdf or .svg",
        ),
        ([draw, str(tmp_path / "no" / "out.png"), *workdirs], "cannot write"),
        ([draw, out], "required: WORKDIR"),
        (["accuracies", out, *workdirs], "invalid choice: 'accuracies'"),
        ([draw, out, *workdirs, "--size", "page"], "invalid choice: 'page'"),
    ]:
        with pytest.raises(UserError, match=what) as caught:
            plot.main("plot", arguments)
        assert "\n" not in str(caught.value)
