"""Pictures: they show the given numbers, and stay readable at any size."""

from functools import partial

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support import drawing
from support.drawing import legend, lines, pixels, ticks, titles
from support.every import check_every
from support.refusal import refused

from jaxproto.lab import plots
from jaxproto.lab.plots import style

RNG = np.random.default_rng(0)
drawn = drawing.drawn


def texts(axes):
    """The numbers written into a matrix."""
    return [t.get_text() for t in axes.texts]


def test_a_partition_is_legible_at_every_size(drawn):
    counts_KC = np.array([[5, 0, 1000], [0, 1, 0]])
    axes = drawn(plots.partition_heatmap, counts_KC, [4, 7], [0, 1, 2]).axes[0]
    assert sorted(texts(axes)) == ["1", "1000", "5"]
    assert axes.get_title() == "2 clients, 3 classes, 1,006 examples"
    assert (pixels(axes).mask == (counts_KC == 0)).all()
    assert ticks(axes, "y") == ["4", "7"]
    for num_K, num_C, numbered in ((20, 10, True), (100, 100, False)):
        counts_KC = RNG.integers(1, 600, (num_K, num_C))
        figure = drawn(plots.partition_heatmap, counts_KC)
        axes = figure.axes[0]
        box = axes.get_window_extent()
        cell = box.width / num_C, box.height / num_K
        assert min(cell) * 72 / figure.dpi > 3.5  # points
        assert len(axes.texts) == num_K * num_C * numbered
        renderer = FigureCanvasAgg(figure).get_renderer()
        widths = [t.get_window_extent(renderer).width for t in axes.texts]
        assert max(widths, default=0) < cell[0]


def record(r):
    """Two rules; accuracy r percent, the clients' mean half of it."""
    row = {"pooled": r / 100, "client_mean": r / 200, "client_std": 0.1}
    return {"round": r, "rules": {"head": row, "local": {**row, "pooled": None}}}


def test_accuracy_has_a_panel_per_rule_in_percent(drawn):
    figure = drawn(plots.accuracy_over_rounds, [record(r) for r in (10, 20, 40)])
    head, local = figure.axes
    assert titles(figure) == ["rule head", "rule local"]
    names = "pooled over samples", "mean over clients"
    pooled, mean = (lines(head)[name] for name in names)
    np.testing.assert_allclose(pooled.get_xydata(), [[10, 10], [20, 20], [40, 40]])
    np.testing.assert_allclose(mean.get_ydata(), [5, 10, 20])
    assert (pooled.get_linestyle(), mean.get_linestyle()) == ("-", "--")
    (band,) = head.collections
    extent = band.get_datalim(head.transData)
    assert (extent.ymin, extent.ymax) == (0, 30)  # 5 - 10 is cut at 0; 20 + 10
    assert np.isnan(lines(local)["pooled over samples"].get_ydata()).all()


def test_angles_leave_out_absent_classes_and_name_the_closest_pair(drawn):
    turns = np.radians([0, 30, 90, 95, 200])
    mean_CD = 7 * np.stack([np.cos(turns), np.sin(turns)], 1)
    mean_CD[4] = 0  # no direction: as good as absent
    given = mean_CD, np.array([1, 1, 5, 0, 1]), [2, 5, 6, 7, 9], "ProtoNorm"
    axes = drawn(plots.prototype_angles, *given).axes[0]
    told = "mean 60.0° (all equal: 120.0°)\nsmallest 30.0°: classes 2 and 5"
    assert axes.get_title() == f"ProtoNorm\n{told}"
    assert sorted(texts(axes)) == ["30", "60", "90"]  # each pair once
    assert (ticks(axes), ticks(axes, "y")) == (["2", "5"], ["5", "6"])
    assert axes.images[0].get_clim() == pytest.approx((30, 90))
    # All alike: rounding shall not look like a pattern.
    image = drawn(plots.prototype_angles, np.eye(4), np.ones(4)).axes[0].images[0]
    assert image.get_clim() == pytest.approx((85, 95))
    assert drawn(plots.prototype_angles, np.ones((3, 2)), np.array([0, 1, 0])).axes


def test_features_have_lines_of_the_classes_of_their_client(drawn):
    y_M, count_C = np.arange(9) % 3, np.array([3, 0, 0])
    local_CD = np.array([[1.0, 2], [3, 4], [5, 6]])
    plane = plots.Plane("a", RNG.normal(size=(9, 2)), y_M, local_CD, count_C)
    figure = drawn(plots.features_grid, [plane, plane], [0, 2])
    assert titles(figure) == ["a", "a"] and legend(figure) == ["class 0", "class 2"]
    assert sum(len(p.get_offsets()) for p in figure.axes[0].collections) == 6
    shown = [line.get_xydata().tolist() for line in figure.axes[0].lines]
    assert [[0, 0], [1, 2]] in shown and [[0, 0], [5, 6]] not in shown
    global_CD = local_CD * [[1], [0], [1]]  # class 1 has none
    plane = plots.prototype_plane("b", global_CD, local_CD[None], count_C[None])
    assert legend(drawn(plots.prototypes_2d, [plane])) == ["class 0", "class 2"]


def test_prototypes_with_and_without_cps_share_one_scale(drawn):
    proto_KD = np.array([[1.0, 0, 3, 4], [0, 0, 0, 0], [2, 2, 0, 9]])
    mask_D = np.array([True, False, True, False])
    figure = drawn(plots.prototype_heatmap, proto_KD, "class 2", mask_D=mask_D)
    dense, sparse, _ = figure.axes
    assert titles(figure)[:2] == ["without CPS", "with CPS: 2 of 4 dimensions"]
    there = [0, 2]  # client 1 has no prototype, and no row
    np.testing.assert_array_equal(pixels(dense), proto_KD[there])
    np.testing.assert_array_equal(pixels(sparse), (proto_KD * mask_D)[there])
    assert ticks(dense, "y") == ["0", "2"]
    assert dense.images[0].get_clim() == sparse.images[0].get_clim()
    proto_KD = np.array([[1.0, 0, -3], [0, 2, 0]])
    named = {"rows": ["L3", "G"], "what": "p", "binary": True}
    dense, above, _ = drawn(plots.prototype_heatmap, proto_KD, "t", **named).axes
    np.testing.assert_array_equal(pixels(above), proto_KD > 0)
    assert ticks(dense, "y") == ["L3", "G"]


def test_many_dimensions_are_sorted_those_that_a_mask_keeps_first(drawn):
    proto_KD, mask_D = RNG.normal(size=(5, 512)), RNG.random(512) < 0.1
    figure = drawn(plots.prototype_heatmap, proto_KD, "t", mask_D=mask_D)
    shown, kept = pixels(figure.axes[0]), mask_D.sum()
    for part in (shown[:, :kept], shown[:, kept:]):
        assert (np.diff(part.mean(0)) <= 0).all()
    assert not np.any(pixels(figure.axes[1])[:, kept:])
    axes = drawn(plots.prototype_heatmap, proto_KD, "t", in_order=True).axes[0]
    np.testing.assert_array_equal(pixels(axes), proto_KD)
    low, high = axes.images[0].get_clim()
    assert low == -high and high == pytest.approx(np.percentile(abs(proto_KD), 99))


def test_head_norms_are_scaled_as_the_data_and_their_distance_is_frobenius(drawn):
    count_KC = np.array([[0, 30, 15], [8, 0, 8]])
    norm_KC = np.array([[1.0, 2.0, 1.0], [0.5, 0.5, 0.75]])
    figure = drawn(plots.head_norms, {"a": norm_KC}, count_KC)
    data, norms = (axes.images[0] for axes in figure.axes[:2])
    np.testing.assert_allclose(data.get_array(), [[0, 1, 0.5], [1, 0, 1]])
    np.testing.assert_allclose(norms.get_array(), [[0, 1, 0], [0, 0, 1]])
    assert data.get_clim() == norms.get_clim() == (0, 1)
    told = "Frobenius distance to the data: a"
    assert figure.get_suptitle() == f"{told} 1.12"  # root of 0.25 + 1
    # Two runs have their difference; chosen heads change no scale and no distance.
    runs = {"a": norm_KC, "b": norm_KC[::-1]}
    figure = drawn(plots.head_norms, runs, count_KC, clients=[1], classes=[0, 2])
    gap = figure.axes[3].images[0]
    np.testing.assert_allclose(gap.get_array(), [[0, -1]])
    assert figure.get_suptitle() == f"{told} 1.12, b 2.06"


def test_classes_have_bars_over_the_range_and_runs_are_side_by_side(drawn):
    rows = (np.zeros(200), -np.ones(200), np.ones(200))
    axes = drawn(plots.cosine_by_class, {"a": rows, "b": rows}, range(200)).axes[0]
    (a, _, (bars,)), (b, *_) = axes.containers
    gap = b.get_xdata() - a.get_xdata()
    assert np.all((gap > 0.1) & (gap < 0.5))
    assert [s[:, 1].tolist() for s in bars.get_segments()] == [[-1, 1]] * 200


def test_bars_have_no_scale_where_no_seed_reached_the_target(drawn):
    none = [plots.Bar("a", [], [], 3, 88.8), plots.Bar("b", [], [], 0, float("nan"))]
    for panel in drawn(plots.rounds_to_target_bars, none, "until 99 %").axes:
        assert texts(panel) == ["not reached (best 88.8 %)", "has no such rule"]
        assert not any(label.get_visible() for label in panel.get_xticklabels())


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(style.importlib.util, "find_spec", lambda name: None)
    assert not plots.available()
    with refused("pip install 'jaxproto[plots]'"):
        plots.partition_heatmap(tmp_path / "x.png", np.ones((2, 2), int))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------ sizes and formats of papers

LONG = ["ProtoNorm", "CPS + PPA + CPKD on FedTGP", "TinyProto-FT (s 50, mu 0.5)"]
RULES = ["head", "local", "global", "global_own", "received"]
MEAN_CD, COUNTS_KC = RNG.normal(size=(10, 64)), RNG.integers(0, 900, (20, 10))
DISTANCES = ("mean_distance", "smallest_distance", "largest_distance", "mean_angle")
SEEN = dict.fromkeys(DISTANCES, np.linspace(0.5, 1.4, 30))
SEEN |= dict.fromkeys(("smallest_angle", "energy", "force"), np.linspace(9, 1, 30))
NOTE = "mean over 3 seeds, least to largest"
WORDY = [f"{name}, with a name of many words" for name in LONG[:2]]
MANY_HEADS = {name: RNG.random((100, 100)) for name in WORDY}


def run_of(seed=0):
    row = {"pooled": 0.8 + seed / 100, "client_mean": 0.7, "client_std": 0.1}
    return [
        {
            "round": r,
            "rules": dict.fromkeys(RULES, row),
            "bytes_total": {"up": 1000 * r, "down": 3000 * r},
        }
        for r in (5, 10, 20, 40)
    ]


def bands():
    return [plots.band(k, [5, 10, 20, 40], RNG.random((3, 4)) * 100) for k in LONG]


def arrows(title):
    places = RNG.normal(size=(6, 2)), RNG.normal(size=(9, 6, 2))
    return plots.prototype_plane(title, *places, np.ones((9, 6)))


def embedded(title):
    points = [RNG.normal(size=(n, 2)) for n in (200, 40, 10)]
    parts = [a for p in points for a in (p, np.arange(len(p)) % 10)]
    return plots.Embedded(title, *parts)


MASKED_HEATMAP = partial(plots.prototype_heatmap, mask_D=np.ones(512))
BARS = [
    plots.Bar(LONG[0], [40, 45], [2.1e7, 3e7], 3, 96.0),
    plots.Bar(LONG[1], [], [], 3, 88.8),
    plots.Bar("local", [], [], 0, float("nan")),
]
WHOLE = "one client that holds every class; whole networks are shufflenet_v2_x1_0"
COSTS = [("512 dimensions", "classes K", bands()), ("10 classes", "d", bands())]
BY_RULE = {f"rule {k}": bands() for k in RULES}
DRAWN = {
    "accuracy": (plots.bands, BY_RULE, "round", "test accuracy (%)", NOTE),
    "bytes": (plots.accuracy_against_bytes, {k: [run_of(), run_of(1)] for k in LONG}),
    "until": (plots.rounds_to_target_bars, BARS, f"until 95 % test accuracy\n{NOTE}"),
    "confusion": (plots.confusion_matrices, dict.fromkeys(LONG, COUNTS_KC[:10])),
    "partition": (plots.partition_heatmap, COUNTS_KC, None, None, LONG[1]),
    "angles": (plots.prototype_angles, MEAN_CD, np.ones(10), None, LONG[1]),
    "values": (MASKED_HEATMAP, RNG.normal(size=(20, 512)), LONG[1]),
    "many heads": (plots.head_norms, MANY_HEADS, RNG.integers(0, 900, (100, 100))),
    "margins": (plots.margins, {k: RNG.random(200) for k in LONG}, range(200)),
    "prototypes": (plots.prototypes_2d, [arrows(k) for k in LONG]),
    "t-SNE": (plots.embedding, [embedded(k) for k in LONG[:2]], 10, "A note. " * 30),
    "trace": (plots.alignment_trace, {LONG[0]: SEEN}, {LONG[0]: (10, 64)}),
    "cost": (plots.communication_cost, COSTS, WHOLE),
}


@pytest.mark.long
def test_no_text_is_cut_off_or_covers_another(drawn):
    def check(name, size):
        draw, *given = DRAWN[name]
        with plots.paper_width(size):
            figure = drawn(draw, *given)
        assert figure.get_figwidth() == plots.SIZES[size]
        assert figure.get_figheight() < 9.5  # of a page
        assert drawing.faults(figure) == []

    check_every([(name, size) for name in DRAWN for size in plots.SIZES], check)


def test_the_suffix_is_the_format_and_files_are_reproducible(tmp_path):
    run, found = [arrows("ProtoNorm (s 50)")], {}
    for suffix in ("png", "pdf", "SVG"):
        for name in "ab":
            plots.prototypes_2d(tmp_path / f"{name}.{suffix}", run)
        found[suffix] = (tmp_path / f"a.{suffix}").read_bytes()
        assert found[suffix] == (tmp_path / f"b.{suffix}").read_bytes()
    assert found["png"].startswith(b"\x89PNG") and found["pdf"].startswith(b"%PDF")
    for text in (b">ProtoNorm (s 50)<", b">class 3<", b">feature 1<"):
        assert text in found["SVG"]  # letters stay text
    pdf = found["pdf"]
    assert b"/Type0" in pdf or b"/TrueType" in pdf  # 42; outlines are /Type3
    assert b"/Type3" not in pdf


def test_40_lines_differ_in_more_than_colour():
    looks = {(look["color"], look["ls"]) for look in map(style.line_style, range(40))}
    assert len(looks) == 40
