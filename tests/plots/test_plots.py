"""Pictures: that they show what they are given, and stay readable at any size."""

from functools import partial

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support import drawing

from jaxproto import plots
from jaxproto.errors import UserError
from jaxproto.plots import canvas, heads, values

RNG = np.random.default_rng(0)


@pytest.fixture
def drawn(tmp_path):
    return partial(drawing.draw, tmp_path / "x.png")


def texts(axes):
    """The numbers written into a matrix."""
    return [t.get_text() for t in axes.texts]


def legend(figure):
    """The lines of a legend."""
    return [t.get_text() for t in figure.legends[0].get_texts()]


def test_partition_numbers_every_cell_that_has_examples(drawn):
    counts_KC = np.array([[5, 0, 1000], [0, 1, 0]])
    axes = drawn(plots.partition_heatmap, counts_KC).axes[0]
    assert sorted(texts(axes)) == ["1", "1000", "5"]
    assert axes.get_title() == "2 clients, 3 classes, 1,006 examples"
    assert (axes.images[0].get_array().mask == (counts_KC == 0)).all()


@pytest.mark.parametrize(("num_K", "num_C"), [(20, 10), (20, 100), (100, 100), (1, 2)])
def test_partition_is_legible_at_every_size(drawn, num_K, num_C):
    counts_KC = RNG.integers(0, 600, (num_K, num_C))
    figure = drawn(plots.partition_heatmap, counts_KC)
    axes = figure.axes[0]
    box = axes.get_window_extent()
    assert min(box.width / num_C, box.height / num_K) * 72 / figure.dpi > 3.5  # points
    numbers = np.count_nonzero(counts_KC) if num_K * num_C <= 400 else 0
    assert len(axes.texts) == numbers
    renderer = FigureCanvasAgg(figure).get_renderer()
    widest = max((t.get_window_extent(renderer).width for t in axes.texts), default=0)
    assert widest < box.width / num_C


def record(r):
    """Two rules; accuracy r percent, the clients' mean half of it."""
    row = {"pooled": r / 100, "client_mean": r / 200, "client_std": 0.1}
    return {"round": r, "rules": {"head": row, "local": {**row, "pooled": None}}}


def test_accuracy_has_a_panel_per_rule_in_percent(drawn):
    figure = drawn(plots.accuracy_over_rounds, [record(r) for r in (10, 20, 40)])
    head, local = figure.axes
    assert (head.get_title(), local.get_title()) == ("rule head", "rule local")
    lines = {line.get_label(): line for line in head.lines}
    pooled, mean = lines["pooled over samples"], lines["mean over clients"]
    np.testing.assert_allclose(pooled.get_xydata(), [[10, 10], [20, 20], [40, 40]])
    np.testing.assert_allclose(mean.get_ydata(), [5, 10, 20])
    assert (pooled.get_linestyle(), mean.get_linestyle()) == ("-", "--")
    (band,) = head.collections
    extent = band.get_datalim(head.transData)
    assert (extent.ymin, extent.ymax) == (0, 30)  # 5 - 10 is cut at 0; 20 + 10
    other = {line.get_label(): line for line in local.lines}["pooled over samples"]
    assert np.isnan(other.get_ydata()).all()


def test_accuracy_of_a_single_evaluation_is_visible(drawn):
    figure = drawn(plots.accuracy_over_rounds, [record(10)])
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert lines["pooled over samples"].get_marker() == "o"


def test_angles_are_those_of_a_loop_over_pairs():
    mean_CD = RNG.normal(size=(5, 7))
    for i, a in enumerate(mean_CD):
        for j, b in enumerate(mean_CD):
            cosine = a @ b / np.sqrt((a @ a) * (b @ b))
            want = np.degrees(np.arccos(min(cosine, 1.0)))
            assert plots.angles(mean_CD)[i, j] == pytest.approx(want, abs=1e-5)


def test_angles_leave_out_absent_classes_and_name_the_closest_pair(drawn):
    turns = np.radians([0, 30, 90, 95, 200])
    mean_CD = 7 * np.stack([np.cos(turns), np.sin(turns)], 1)
    mean_CD[4] = 0  # no direction: as good as absent
    count_C = np.array([1, 1, 5, 0, 1])
    axes = drawn(plots.prototype_angles, mean_CD, count_C).axes[0]
    told = "mean 60.0° (all equal: 120.0°)\nsmallest 30.0°: classes 0 and 1"
    assert axes.get_title() == told
    assert sorted(texts(axes)) == ["30", "60", "90"]  # each pair once


def test_angles_are_told_apart_by_a_scale_that_ends_where_they_do(drawn):
    turns = np.radians([0, 80, 165])
    mean_CD = np.stack([np.cos(turns), np.sin(turns)], 1)
    figure = drawn(plots.prototype_angles, mean_CD, np.ones(3), None, "ProtoNorm")
    assert figure.axes[0].get_title().startswith("ProtoNorm\n")
    assert figure.axes[0].images[0].get_clim() == pytest.approx((80, 165))
    mean_CD = np.eye(4)  # all alike: rounding shall not look like a pattern
    image = drawn(plots.prototype_angles, mean_CD, np.ones(4)).axes[0].images[0]
    assert image.get_clim() == pytest.approx((85, 95))


def test_angles_of_100_classes_are_drawn_without_numbers(drawn):
    axes = drawn(
        plots.prototype_angles, RNG.normal(size=(100, 512)), np.ones(100)
    ).axes[0]
    assert texts(axes) == [] and "smallest" in axes.get_title()
    assert "all equal: 90.6°" in axes.get_title()


def test_angles_of_a_single_class_are_none(drawn, tmp_path):
    plots.prototype_angles(tmp_path / "x.png", np.ones((3, 2)), np.array([0, 1, 0]))
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_prototypes_are_dashed_lines_and_points_of_the_clients_that_have_them(drawn):
    global_CD = np.array([[3.0, 0.0], [0.0, 2.0]])
    local_KCD = RNG.normal(size=(3, 2, 2))
    count_KC = np.array([[4, 0], [1, 0], [0, 9]])
    runs = [plots.Arrows("ProtoNorm", global_CD, local_KCD, count_KC)]
    figure = drawn(plots.prototypes_2d, runs)
    axes = figure.axes[0]
    lines = [line for line in axes.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(lines[1].get_xydata(), [[0, 0], [0, 2]])
    first, second = (points.get_offsets() for points in axes.collections)
    np.testing.assert_allclose(first, local_KCD[:2, 0])
    np.testing.assert_allclose(second, local_KCD[2:, 1])
    assert axes.get_aspect() == 1 and legend(figure) == ["class 0", "class 1"]
    assert axes.get_title() == "ProtoNorm"


def test_features_show_own_classes_as_lines_and_every_sample_as_a_point(drawn):
    feat_MD, y_M = RNG.normal(size=(50, 2)), RNG.integers(0, 2, 50)
    local_CD, count_C = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([3, 0, 0])
    plane = plots.Plane("client 4", feat_MD, y_M, local_CD, count_C)
    figure = drawn(plots.features_grid, [plane])
    axes = figure.axes[0]
    lines = [line.get_xydata().tolist() for line in axes.lines]
    assert [[0, 0], [1, 2]] in lines and [[0, 0], [3, 4]] not in lines
    assert sum(len(points.get_offsets()) for points in axes.collections) == 50
    assert axes.get_title() == "client 4"
    assert legend(figure) == ["class 0", "class 1"]


def test_a_hundred_classes_in_the_plane_get_a_scale_in_place_of_a_legend(drawn):
    global_CD = RNG.normal(size=(100, 2))
    local_KCD, count_KC = RNG.normal(size=(20, 100, 2)), RNG.integers(0, 2, (20, 100))
    runs = [plots.Arrows("a", global_CD, local_KCD, count_KC)]
    figure = drawn(plots.prototypes_2d, runs)
    assert not figure.legends
    assert figure.axes[1].get_ylabel() == "class"


def test_prototypes_with_and_without_cps_share_one_scale(drawn):
    proto_KD = np.array([[1.0, 0, 3, 4], [0, 0, 0, 0], [2, 2, 0, 9]])
    mask_D = np.array([True, False, True, False])
    figure = drawn(plots.prototype_heatmap, proto_KD, "class 2", mask_D=mask_D)
    dense, sparse, bar = figure.axes
    assert dense.get_title() == "without CPS"
    assert sparse.get_title() == "with CPS: 2 of 4 dimensions"
    assert figure.get_suptitle() == "class 2" and bar.get_ylabel() == "value"
    before, after = (axes.images[0].get_array() for axes in (dense, sparse))
    there = [0, 2]  # client 1 has no prototype, and no row
    np.testing.assert_array_equal(before, proto_KD[there])
    np.testing.assert_array_equal(after, (proto_KD * mask_D)[there])
    assert [t.get_text() for t in dense.get_yticklabels()] == ["0", "2"]
    assert dense.images[0].get_clim() == sparse.images[0].get_clim()


def test_a_prototype_of_which_a_mask_leaves_nothing_stays(drawn):
    proto_KD = np.array([[0, 0, 3.0], [0, 0, 0]])
    figure = drawn(plots.prototype_heatmap, proto_KD, "t", mask_D=np.array([1, 1, 0]))
    for axes in figure.axes[:2]:
        assert [t.get_text() for t in axes.get_yticklabels()] == ["0"]


def test_many_dimensions_are_sorted_those_that_a_mask_keeps_first(drawn):
    proto_KD, mask_D = RNG.normal(size=(5, 512)), RNG.random(512) < 0.1
    figure = drawn(plots.prototype_heatmap, proto_KD, "t", mask_D=mask_D)
    shown, kept = figure.axes[0].images[0].get_array(), mask_D.sum()
    for part in (shown[:, :kept], shown[:, kept:]):
        assert (np.diff(part.mean(0)) <= 0).all()
    assert not np.any(figure.axes[1].images[0].get_array()[:, kept:])
    assert figure.axes[1].get_xlabel() == "feature dimension, largest mean first"
    figure = drawn(plots.prototype_heatmap, proto_KD, "t", in_order=True)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), proto_KD)
    assert figure.axes[0].get_xlabel() == "feature dimension"
    order_D = values.sorting(proto_KD, np.ones(512, bool), "class")
    assert (np.diff(proto_KD.argmax(0)[order_D]) >= 0).all()  # a block for each class


def test_zeros_are_white_whatever_else_there_is(drawn):
    for proto_KD in (np.array([[0.0, 1, 5]]), np.array([[0.0, -3, 5]])):
        image = drawn(plots.prototype_heatmap, proto_KD, "t").axes[0].images[0]
        assert min(image.cmap(image.norm(0.0))[:3]) > 0.96
        assert min(image.cmap(image.norm(5.0))[:3]) < 0.5


def test_prototypes_without_cps_are_one_panel(drawn):
    figure = drawn(plots.prototype_heatmap, RNG.random((20, 500)), "class 2")
    assert len(figure.axes) == 2  # the matrix and its scale
    assert figure.axes[0].images[0].get_array().shape == (20, 500)


def test_prototypes_of_both_signs_have_their_zero_in_the_middle(drawn):
    proto_KD = RNG.normal(size=(4, 30)) + 1
    figure = drawn(plots.prototype_heatmap, proto_KD, "class 2")
    low, high = figure.axes[0].images[0].get_clim()
    assert low == -high and high == pytest.approx(np.percentile(abs(proto_KD), 99))


@pytest.mark.long
@pytest.mark.parametrize("num_D", [2, 1280])
def test_every_dimension_of_a_prototype_has_a_pixel(drawn, num_D):
    proto_KD = RNG.random((100, num_D))
    figure = drawn(plots.prototype_heatmap, proto_KD, "class 2", mask_D=np.ones(num_D))
    box = figure.axes[0].get_window_extent()
    assert box.width * 200 / figure.dpi > num_D
    assert box.height / 100 * 72 / figure.dpi > 3.5  # points of a client


def test_cosine_similarity_is_that_of_a_loop_over_pairs():
    mean_CD = RNG.normal(size=(4, 6))
    for i, a in enumerate(mean_CD):
        for j, b in enumerate(mean_CD):
            cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            assert plots.cosines(mean_CD)[i, j] == pytest.approx(cosine)


def loop_frobenius(norm_KC, count_KC):
    """Each client scaled by itself, then the root of the sum of squares."""
    total = 0.0
    for norm_C, count_C in zip(norm_KC, count_KC, strict=True):
        a = (norm_C - min(norm_C)) / (max(norm_C) - min(norm_C))
        b = (count_C - min(count_C)) / (max(count_C) - min(count_C))
        total += sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    return total**0.5


def test_frobenius_is_that_of_a_loop_over_clients():
    norm_KC, count_KC = RNG.random((20, 10)), RNG.integers(0, 500, (20, 10))
    want = loop_frobenius(norm_KC, count_KC)
    assert plots.frobenius(norm_KC, count_KC) == pytest.approx(want)
    want = loop_frobenius(norm_KC.T, count_KC.T)
    assert plots.frobenius(norm_KC, count_KC, axis=0) == pytest.approx(want)


def test_frobenius_is_zero_where_norms_follow_the_data_whatever_their_scale():
    count_KC = np.array([[0, 30, 10], [7, 7, 7], [500, 0, 0]])
    norm_KC = 0.2 + count_KC * np.array([[0.01], [0.2], [0.003]])
    assert plots.frobenius(norm_KC, count_KC) == pytest.approx(0, abs=1e-12)
    assert plots.frobenius(norm_KC[::-1], count_KC) > 1


def test_head_norms_show_both_matrices_scaled_and_their_distance(drawn):
    count_KC = np.array([[0, 30, 15], [8, 0, 8]])
    norm_KC = np.array([[1.0, 2.0, 1.0], [0.5, 0.5, 0.75]])
    figure = drawn(plots.head_norms, norm_KC, count_KC)
    data, norms = (axes.images[0] for axes in figure.axes[:2])
    np.testing.assert_allclose(data.get_array(), [[0, 1, 0.5], [1, 0, 1]])
    np.testing.assert_allclose(norms.get_array(), [[0, 1, 0], [0, 0, 1]])
    assert data.get_clim() == norms.get_clim() == (0, 1)
    assert figure.get_suptitle() == "Frobenius distance 1.12"  # root of 0.25 + 1


def test_rows_of_a_choice_have_their_own_numbers(drawn):
    mean_CD = np.array([[1.0, 0], [3, 3], [0, 2]])
    axes = drawn(plots.prototype_angles, mean_CD, np.ones(3), [2, 5, 9]).axes[0]
    assert "smallest 45.0°: classes 2 and 5" in axes.get_title().replace("\n", " ")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["2", "5"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["5", "9"]
    axes = drawn(plots.partition_heatmap, np.ones((2, 3), int), [4, 7], [0, 1, 2])
    rows = axes.axes[0].get_yticklabels()
    assert [t.get_text() for t in rows] == ["4", "7"]


def test_a_binary_panel_shows_what_is_above_0(drawn):
    proto_KD = np.array([[1.0, 0, -3], [0, 2, 0]])
    figure = drawn(
        plots.prototype_heatmap, proto_KD, "t", rows=["L3", "G"], what="p", binary=True
    )
    values, above, bar = figure.axes
    assert above.get_title() == "above 0" and bar.get_ylabel() == "value"
    shown = above.images[0].get_array()
    np.testing.assert_array_equal(shown, proto_KD > 0)
    assert [t.get_text() for t in values.get_yticklabels()] == ["L3", "G"]


def test_a_choice_of_heads_changes_neither_their_scale_nor_the_distance(drawn):
    norm_KC, count_KC = RNG.random((6, 5)), RNG.integers(0, 500, (6, 5))
    figure = drawn(plots.head_norms, norm_KC, count_KC, clients=[4, 1], classes=[0, 3])
    want = heads.min_max(norm_KC, 1)[[[4], [1]], [0, 3]]
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), want)
    distance = plots.frobenius(norm_KC, count_KC)
    assert figure.get_suptitle() == f"Frobenius distance {distance:.2f}"


def test_the_difference_of_two_runs_is_of_what_was_scaled(drawn):
    count_KC = RNG.integers(0, 500, (4, 5))
    runs = {"a": RNG.random((4, 5)), "b": RNG.random((4, 5))}
    figure = drawn(plots.head_norm_difference, runs, count_KC)
    data, first, second, gap = (
        axes.images[0] for axes in figure.axes if axes.get_xlabel() == "class"
    )
    both = [heads.min_max(runs[k], 1) for k in "ab"]
    np.testing.assert_allclose(first.get_array(), both[0])
    np.testing.assert_allclose(gap.get_array(), both[1] - both[0])
    assert gap.get_clim() == (-1, 1) and data.get_clim() == second.get_clim() == (0, 1)
    told = [f"{k} {plots.frobenius(runs[k], count_KC):.2f}" for k in "ab"]
    assert all(text in figure.get_suptitle() for text in told)


def test_features_of_several_clients_have_a_panel_each(drawn):
    planes = [
        plots.Plane(f"client {i}", RNG.normal(size=(9, 2)), np.arange(9) % 3, c, n)
        for i, (c, n) in enumerate([(RNG.normal(size=(3, 2)), np.ones(3))] * 7)
    ]
    figure = drawn(plots.features_grid, planes, [0, 2])
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [f"client {i}" for i in range(7)]
    assert legend(figure) == ["class 0", "class 2"]
    assert sum(len(p.get_offsets()) for p in panels[0].collections) == 6


def test_without_matplotlib_the_way_to_get_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(canvas.importlib.util, "find_spec", lambda name: None)
    assert not plots.available()
    with pytest.raises(UserError, match=r"pip install 'jaxproto\[plots\]'"):
        plots.partition_heatmap(tmp_path / "x.png", np.ones((2, 2), int))
    assert list(tmp_path.iterdir()) == []
