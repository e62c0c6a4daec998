"""Pictures of a finished run from its last checkpoint."""

import jax
import numpy as np
import pytest
from PIL import Image
from support import drawing, runs
from support.drawing import dashed, legend, pixels, ticks, titles
from support.refusal import refused

from jaxproto.lab.callbacks import pictures
from jaxproto.lab.cli import plot
from jaxproto.lab.figures import class_geometry, confusion, derived
from jaxproto.lab.saved_runs import restore
from jaxproto.prototypes import kernels
from jaxproto.storage import records
from jaxproto.summary.host_prototypes import HostProtos, LearntPrototypes

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

FEW = {"rounds": 3, "checkpoint_every": 1, "data__clients": 5, "wire__up": "bfloat16"}
FEW |= {"participation__law": "uniform", "participation__fraction": 0.8}
FEW |= {"participation__dropout": 0.25}  # some report in a round


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """ProtoNorm in two dimensions."""
    folder = tmp_path_factory.mktemp("runs") / "spiral"
    runs.run(runs.small("protonorm", method__on_server="carry_over", **FEW), folder)
    return folder


@pytest.fixture(scope="module")
def run(path):
    return restore.load(path)


@pytest.fixture
def drawn(tmp_path):
    out = tmp_path / "x.png"

    def f(name, *arguments):
        def call(out):
            out.unlink(missing_ok=True)
            plot.main("plot", [name, f"--out={out}", *map(str, arguments)])

        return drawing.draw(out, call)

    return f


def test_the_prototypes_before_the_last_alignment_are_reconstructed(path, run):
    """With who reported, rounded uploads and prototypes carried over."""
    before = derived.before_alignment(run)
    align = jax.jit(kernels.align)
    again, steps = align(before.mean, before.count > 0)
    np.testing.assert_allclose(again, run.state.server.protos.mean, atol=1e-5)
    record = records.read(path / "metrics.jsonl")[-1]
    assert steps == record["alignment_iterations"]
    seen = derived.alignment_trace(before)
    assert len(seen["energy"]) == steps + 1
    for name, at in (("alignment_energy_before", 0), ("alignment_energy_after", -1)):
        assert seen["energy"][at] == pytest.approx(record[name], rel=1e-4)
    other = run._replace(config=run.config.copy_and_resolve_references())
    other.config.method.alignment = "none"
    with refused("has no alignment to trace"):
        derived.before_alignment(other)


def test_the_first_alignment_is_that_of_the_first_round(drawn, path, run):
    told = records.read(path / "metrics.jsonl")[0]["every_round"]
    first = derived.after_first_round(run)
    angle = kernels.smallest_angle(run.exp.method.broadcast(first.state.server))
    assert float(angle) == pytest.approx(told["smallest_angle"][0], rel=1e-5)
    figure = drawn("alignment_trace", path, "--first")
    assert legend(figure)[0] == "ProtoNorm, round 1"
    energy = figure.axes[2].lines[0].get_ydata()
    for name, at in (("alignment_energy_before", 0), ("alignment_energy_after", -1)):
        assert energy[at] == pytest.approx(told[name][0], rel=1e-4)
    last = told["alignment_energy_before"][2]
    assert energy[0] != pytest.approx(last, rel=1e-4)


def test_pictures_are_of_the_chosen_clients_and_classes(drawn, path, run, monkeypatch):
    axes = drawn("prototypes", path, "--clients", "1,3", "--classes", "0,2").axes[0]
    ends = np.array([line.get_xydata()[1] for line in dashed(axes)])
    scale = run.config.method.upscale
    want = np.asarray(run.state.server.protos.mean)[[0, 2]] * scale
    np.testing.assert_allclose(ends, want, rtol=1e-5)
    state = run.state
    local = pictures.learnt_prototypes(run.exp, state.server, state.clients).local
    there_C = (local.count[[1, 3]][:, [0, 2]] > 0).sum(0)
    assert [len(p.get_offsets()) for p in axes.collections] == there_C.tolist()
    figure = drawn("features", path, "--clients", "4,0")
    assert titles(figure) == ["ProtoNorm, client 4", "ProtoNorm, client 0"]
    figure = drawn("global_prototypes", path, "--classes", "1,4", "--binary")
    assert ticks(figure.axes[0], "y") == ["1", "4"]
    figure = drawn("local_prototypes", path, "--clients", "1,2", "--classes", "3")
    here = [f"client {i}" for i in (1, 2) if local.count[i, 3] > 0]
    assert ticks(figure.axes[0], "y") == [*here, "global, as used"]
    with refused("are drawn of one class"):
        drawn("local_prototypes", path, "--classes", "3,4")
    for name in ("cosine_by_class", "margins"):
        axes = drawn(name, path, "--classes", "0,3,5").axes[0]
        assert ticks(axes) == ["0", "3", "5"]
    figure = drawn("heads", path, "--clients", "2,3", "--scale_by", "class")
    assert figure.axes[2].get_ylabel() == "of each class, 0 to 1"
    selected, none = class_geometry.selected_runs, LearntPrototypes(*[None] * 3)
    monkeypatch.setattr(selected, "learnt_prototypes", lambda *_: none)
    with refused("has no global prototypes to draw"):
        drawn("angles", path)


def test_every_picture_of_a_run_is_drawn_again_by_its_name(drawn, path, tmp_path):
    made = sorted(p.stem for p in (path / "plots").iterdir())
    assert {"prototypes", "features"} <= set(made)
    for name in made:
        drawn(name, path)
        again = tmp_path / "x.png"
        with Image.open(again) as a, Image.open(path / f"plots/{name}.png") as b:
            assert a.size == b.size, name
            assert a.tobytes() == b.tobytes(), name


def test_the_diagonal_of_a_confusion_matrix_is_what_the_record_has(drawn, path, run):
    record = records.read(path / "metrics.jsonl")[-1]
    found = confusion.of_clients(run, range(5))
    assert set(found) == set(record["rules"])
    total = run.exp.counts.test.sum()
    for rule, (count_CC, none) in found.items():
        pooled = record["rules"][rule]["pooled"]
        assert np.trace(count_CC) / total == pytest.approx(pooled)
        assert count_CC.sum() + none == total
        if not none:
            np.testing.assert_array_equal(count_CC.sum(1), run.exp.counts.test.sum(0))
    axes = drawn("confusion", path, "--rule", "local", "--classes", "1,2").axes[0]
    count_CC, _ = found["local"]
    whole = count_CC.sum(1, keepdims=True)
    want = 100 * (count_CC / np.where(whole > 0, whole, 1))[1:3, 1:3]
    np.testing.assert_allclose(pixels(axes).filled(0), want)
    with refused("unknown rule 'hed'"):
        drawn("confusion", path, "--rule", "hed")


def test_tsne_places_samples_and_prototypes_the_same_each_time(drawn, path):
    arguments = [path, "--clients", "0,2", "--samples", "4"]
    one, two = (drawn("tsne", *arguments) for _ in range(2))
    for a, b in zip(one.axes[0].collections, two.axes[0].collections, strict=True):
        np.testing.assert_array_equal(a.get_offsets(), b.get_offsets())
    local, server = one.axes[0].collections[1:3]
    assert len(server.get_offsets()) == 6 and 0 < len(local.get_offsets()) <= 12


def test_margins_and_similarities_by_hand():
    """Margin: distance to the nearest other class, over the largest."""
    mean_CD = np.array([[0.0, 0], [3, 0], [3, 9], [1, 1], [0, 0]])
    got = class_geometry.margin(HostProtos(mean_CD, np.array([1, 2, 1, 0, 0])))
    np.testing.assert_allclose(got, [3 / 9, 3 / 9, 1, np.nan, np.nan])
    mean_CD = np.array([[1.0, 0], [0, 2], [3, 3], [1, 1]])
    rows = class_geometry.similarity(HostProtos(mean_CD, np.array([1, 1, 1, 0])))
    half = np.sqrt(0.5)
    want = [[half / 2, half / 2, half, np.nan], [0, 0, half, np.nan]]
    np.testing.assert_allclose(rows[:2], want, atol=1e-12)
