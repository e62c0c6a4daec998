"""Pictures of a sweep: scales that fit the values, names that can be read."""

import itertools
from functools import partial

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support import drawing

from jaxproto import config, plots
from jaxproto.figures import from_records
from jaxproto.sweeps import axes, report
from jaxproto.sweeps.plan import plan


@pytest.fixture
def drawn(tmp_path):
    return partial(drawing.draw, tmp_path / "x.png")


def band(places, label="fedproto"):
    values = np.linspace(20, 80, 2 * len(places)).reshape(2, -1)
    return plots.band(label, places, values, "points")


def against(drawn, places, rules=("head", "local")):
    """Accuracy against values of a field, a panel for each rule."""
    shown = {f"rule {rule}": [band(places)] for rule in rules}
    return drawn(plots.bands, shown, "field", "accuracy").axes


def boxes(labels, figure):
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [label.get_window_extent(renderer) for label in labels if label.get_text()]


@pytest.mark.parametrize(
    ("places", "scale"),
    [
        ([0.1, 1.0, 10.0], "log"),
        ([1e-3, 1e-2, 1e-1, 1.0], "log"),
        ([0.01, 0.1, 0.5, 1.0], "log"),  # alpha
        ([1.0, 200.0, 400.0, 600.0, 800.0, 1000.0], "linear"),  # gamma
        ([50, 150, 250, 350, 450], "linear"),  # s
        ([20, 50, 100], "linear"),  # clients
        ([0.0, 0.5, 0.9], "linear"),
        ([0.0, 1e-4, 1e-3, 1e-2], "symlog"),
        ([-1.0, 0.001, 1.0], "linear"),
        ([3.0], "linear"),
        ([0.0, 5.0], "linear"),
    ],
)
def test_the_scale_fits_the_values_and_ticks_stay_apart(drawn, places, scale):
    panels = against(drawn, places)
    assert {panel.get_xscale() for panel in panels} == {scale}
    for panel in panels:
        ticks = panel.get_xticklabels()
        assert [tick.get_text() for tick in ticks] == [f"{x:g}" for x in places]
        found = boxes(ticks, panel.figure)
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(found))
    sizes = {t.get_fontsize() for panel in panels for t in panel.get_xticklabels()}
    assert len(sizes) == 1


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
        ticks = panel.get_xticklabels()
        assert {tick.get_rotation() for tick in ticks} == {angle}
        found = boxes(ticks, panel.figure)
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(found))
        assert panel.get_xlim() == (-0.5, len(names) - 0.5)
    edges = [boxes(panel.get_xticklabels(), panel.figure) for panel in panels]
    assert edges[0][-1].x1 < edges[1][0].x0  # of neighbours, too
    assert against(drawn, [1.0, 2.0])[0].lines[0].get_linestyle() == "-"


def test_error_bars_go_from_the_least_to_the_largest(drawn):
    (axes,) = against(drawn, [1.0, 2.0, 3.0], ["head"])
    low, high = np.transpose([s[:, 1] for s in axes.collections[0].get_segments()])
    np.testing.assert_allclose(low, [20, 32, 44])
    np.testing.assert_allclose(high, [56, 68, 80])


VALUES = np.array([[50.0, 60.0], [np.nan, 90.0]])


@pytest.mark.parametrize(
    ("columns", "angle"), [(["0.1", "1"], 0), (["digits", "resnet8,mobilenet_v2"], 90)]
)
def test_a_heatmap_has_every_number_a_dash_for_none_and_names(drawn, columns, angle):
    labels = ("method.lam", "method.upscale")
    figure = drawn(plots.grid_heatmap, VALUES, ["1", "3"], columns, labels, "best")
    axes = figure.axes[0]
    texts = {t.get_position(): t.get_text() for t in axes.texts}
    assert texts == {
        (0, 0): "50.00",
        (1, 0): "60.00",
        (0, 1): "\u2013",
        (1, 1): "90.00",
    }
    assert (axes.get_xlabel(), axes.get_ylabel()) == labels
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1", "3"]
    ticks = axes.get_xticklabels()
    assert [t.get_text() for t in ticks] == columns
    assert {t.get_rotation() for t in ticks} == {angle}
    found = boxes(ticks, figure)
    assert found[0].x1 < found[1].x0
    colors = {t.get_text(): t.get_color() for t in axes.texts}
    assert (colors["90.00"], colors["50.00"], colors["\u2013"]) == (
        "white",
        "black",
        "black",
    )


@pytest.fixture
def bands(tmp_path, monkeypatch):
    """What pictures of a sweep show of rule head, whose best is i / 10 in cell i."""
    seen = []
    monkeypatch.setattr(plots, "bands", lambda *a, **k: seen.append(a[1]["rule head"]))
    monkeypatch.setattr(plots, "grid_heatmap", lambda *_: None)

    def draw(*given):
        report.pictures(*finished(tmp_path, given))
        return seen

    return draw


def finished(folder, given):
    """A sweep whose cells have ended."""
    c = config.experiment("fedproto", "digits")
    c.update_from_flattened_dict({"data.clients": 3, "model.group": "mlp"})
    whole, summaries = plan(c, axes(c, given), folder), {}
    for i, cell in enumerate(whole.cells):
        cell.path.mkdir()
        (cell.path / "config.json").write_text(cell.config.to_json())
        digest = {"best": i / 10, "final": 0.0, "mean_last": 0.0, "last_n": 1}
        rules = {"head": {"pooled": digest, "client_mean": digest}}
        made = {"status": "finished", "rounds": 60, "rules": rules}
        report.records.write_json(cell.path / "summary.json", made)
        summaries[cell.name] = made
    return whole, summaries


def test_true_and_false_are_names():
    line = from_records._against("vhl", [(False, [50.0]), (True, [60.0])])
    assert line.x == ["False", "True"]


def test_lines_are_named_by_the_other_field_as_ticks_are(bands):
    by_lam, by_upscale = bands("method.lam=1,2.5", "method.upscale=1,3", "seed=0,1")
    assert [b.label for b in by_lam] == ["FedProto (upscale 1)", "FedProto (upscale 3)"]
    assert [b.label for b in by_upscale] == ["FedProto (lam 1)", "FedProto (lam 2.5)"]
    assert by_lam[1].x == [1.0, 2.5]
    np.testing.assert_allclose(by_lam[1].mean, [25, 65])  # cells 2, 3 and 6, 7
    np.testing.assert_allclose(by_lam[1].low, [20, 60])
    np.testing.assert_allclose(by_lam[1].high, [30, 70])
