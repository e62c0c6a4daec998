"""Pictures for papers: formats, sizes, names, and that nothing lies upon anything."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support import drawing

from jaxproto import config, plots
from jaxproto.cli import plot
from jaxproto.compare import names, targets
from jaxproto.compare.measures import Measure
from jaxproto.compare.papers import NAMES
from jaxproto.config import printed
from jaxproto.errors import UserError
from jaxproto.figures import selection
from jaxproto.methods import METHODS
from jaxproto.plots import canvas, layout
from jaxproto.storage import records
from jaxproto.storage.run_folder import RunFolder

RNG = np.random.default_rng(0)
LONG = ["ProtoNorm", "CPS + PPA + CPKD on FedTGP", "TinyProto-FT (s 50, mu 0.5)"]
RULES = ["head", "local", "global", "global_own", "received"]
MEAN_CD, COUNTS_KC = RNG.normal(size=(10, 64)), RNG.integers(0, 900, (20, 10))
SEEN = dict.fromkeys(
    ("mean_distance", "smallest_distance", "largest_distance", "mean_angle"),
    np.linspace(0.5, 1.4, 30),
)
SEEN |= dict.fromkeys(("smallest_angle", "energy", "force"), np.linspace(9, 1, 30))


def run_of(rules, seed=0):
    """Records of a run."""
    rows = []
    for r in (5, 10, 20, 40):
        row = {"pooled": 0.8 + r / 400 + seed / 100, "client_mean": 0.7}
        row["client_std"] = 0.1
        total = {"up": 1000 * r, "down": 3000 * r}
        rows.append(
            {"round": r, "rules": dict.fromkeys(rules, row)} | {"bytes_total": total}
        )
    return rows


def lines(labels=LONG):
    return [plots.band(k, [5, 10, 20, 40], RNG.random((3, 4)) * 100) for k in labels]


def plane(title):
    given = RNG.normal(size=(90, 2)), np.arange(90) % 6, RNG.normal(size=(6, 2))
    return plots.Plane(title, *given, np.ones(6))


def arrows(title):
    places = RNG.normal(size=(6, 2)), RNG.normal(size=(9, 6, 2))
    return plots.Arrows(title, *places, np.ones((9, 6)))


def embedded(title):
    points = [RNG.normal(size=(n, 2)) for n in (200, 40, 10)]
    parts = [a for p in points for a in (p, np.arange(len(p)) % 10)]
    return plots.Embedded(title, *parts)


BARS = [
    plots.Bar(LONG[0], [40, 45], [2.1e7, 3e7], 3, 96.0),
    plots.Bar(LONG[1], [], [], 3, 88.8),
    plots.Bar("local", [], [], 0, float("nan")),
]
NOTE = "mean over 3 seeds, least to largest"
HEADS = {name: RNG.random((20, 10)) for name in LONG[:2]}
DRAWN = {
    "accuracy": (
        plots.bands,
        {f"rule {k}": lines() for k in RULES},
        "round",
        "test accuracy (%)",
        NOTE,
    ),
    "one accuracy": (plots.accuracy_over_rounds, run_of(RULES), LONG[1]),
    "bytes": (
        plots.accuracy_against_bytes,
        {k: [run_of(RULES), run_of(RULES, 1)] for k in LONG},
    ),
    "one bytes": (plots.accuracy_against_bytes, {LONG[1]: [run_of(RULES)]}),
    "until": (plots.until_bars, BARS, f"until 95 % test accuracy\n{NOTE}"),
    "confusion": (plots.confusion_matrices, dict.fromkeys(LONG, COUNTS_KC[:10])),
    "partition": (plots.partition_heatmap, COUNTS_KC, None, None, LONG[1]),
    "angles": (plots.prototype_angles, MEAN_CD, np.ones(10), None, LONG[1]),
    "values": (
        plots.prototype_heatmap,
        RNG.normal(size=(20, 512)),
        LONG[1],
        np.ones(512),
    ),
    "flat values": (plots.prototype_heatmap, RNG.normal(size=(20, 2)), LONG[1]),
    "heads": (plots.head_norms, HEADS[LONG[0]], COUNTS_KC),
    "two heads": (plots.head_norm_difference, HEADS, COUNTS_KC),
    "margins": (plots.margins, {k: RNG.random(200) for k in LONG}, range(200)),
    "prototypes": (plots.prototypes_2d, [arrows(k) for k in LONG]),
    "features": (plots.features_grid, [plane(f"{k}, client 2") for k in LONG]),
    "t-SNE": (plots.embedding, [embedded(k) for k in LONG[:2]], 10, "A note. " * 30),
    "trace": (plots.alignment_trace, {LONG[0]: SEEN}, {LONG[0]: (10, 64)}),
    "cost": (
        plots.communication_cost,
        [("512 dimensions", "classes K", lines()), ("10 classes", "d", lines())],
        "one client that holds every class; whole networks are shufflenet_v2_x1_0",
    ),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize(
    "size", ["column", pytest.param("text", marks=pytest.mark.long)]
)
def test_nothing_is_cut_off_or_lies_upon_anything(tmp_path, name, size):
    draw, *given = DRAWN[name]
    with plots.sized(size):
        figure = drawing.draw(tmp_path / "x.png", draw, *given)
    assert figure.get_figwidth() == plots.SIZES[size]
    assert figure.get_figheight() < 9.5  # of a page
    assert drawing.faults(figure) == []


def test_faults_are_found(tmp_path):
    with canvas.blank(tmp_path / "x.png", (2, 2)) as figure:
        axes = figure.add_subplot(title="short")
        axes.plot(range(50))
    figure.legend(axes.lines, ["upon the axes"], loc="lower left")
    axes.set_title("far too long for a figure of two inches, so that it is cut off")
    found = drawing.faults(figure)
    assert any(fault.startswith("cut: far too long") for fault in found)
    assert any(fault.startswith("legend on") for fault in found)


def kinds(path):
    """What a file begins with."""
    return path.read_bytes()[:8]


def test_the_suffix_is_the_format_and_letters_stay_text(tmp_path):
    title = "ProtoNorm (s 50)"
    for suffix in ("png", "pdf", "SVG"):
        plots.prototypes_2d(tmp_path / f"x.{suffix}", [arrows(title)])
    assert kinds(tmp_path / "x.png").startswith(b"\x89PNG")
    assert kinds(tmp_path / "x.pdf").startswith(b"%PDF")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "x.SVG").read_text())
    assert {title, "class 3", "feature 1"} <= set(texts)
    pdf = (tmp_path / "x.pdf").read_bytes()
    assert b"/Type0" in pdf or b"/TrueType" in pdf  # 42; outlines are /Type3
    assert b"/Type3" not in pdf
    with pytest.raises(UserError, match=r"does not end in \.png, \.pdf or \.svg"):
        plots.prototypes_2d(tmp_path / "x.eps", [arrows(title)])


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_the_same_picture_is_the_same_file(tmp_path, suffix):
    run, found = arrows("FedProto"), []
    for name in "ab":
        plots.prototypes_2d(tmp_path / f"{name}.{suffix}", [run])
        found.append((tmp_path / f"{name}.{suffix}").read_bytes())
    assert found[0] == found[1]


def test_letters_are_of_8_points_and_a_size_ends_with_its_block(tmp_path):
    with plots.sized("column"):
        figure = drawing.draw(tmp_path / "a.png", plots.prototypes_2d, [arrows("a")])
        assert figure.axes[0].title.get_fontsize() == 8
        assert figure.axes[0].xaxis.label.get_fontsize() == 8
    assert canvas.inches((4.0, 3.0)) == (4.0, 3.0)
    with pytest.raises(UserError, match="unknown size 'page'"), plots.sized("page"):
        pass


def test_40_lines_differ_in_more_than_colour():
    looks = {(look["color"], look["ls"]) for look in map(canvas.look, range(40))}
    assert len(looks) == 40
    for a, b in zip(range(9), range(1, 10), strict=True):
        one, two = canvas.look(a), canvas.look(b)
        assert one["color"] != two["color"] and one["ls"] != two["ls"]
        assert canvas.marks(a, 40)["marker"] != canvas.marks(b, 40)["marker"]
        assert canvas.marks(a, 40)["markevery"] != canvas.marks(b, 40)["markevery"]


@pytest.mark.parametrize(("count", "text", "column"), [(1, 1, 1), (4, 4, 2), (5, 3, 2)])
def test_panels_are_as_many_abreast_as_fit(count, text, column):
    with plots.sized("text"):
        assert layout.abreast(count) == text
    with plots.sized("column"):
        assert layout.abreast(count) == column


def test_names_are_those_that_papers_print():
    assert set(METHODS) >= set(printed.METHODS)
    assert {
        text: k for k, text in printed.METHODS.items() if k in NAMES.values()
    } == NAMES
    for fields, want in [
        (("fedproto", {}), "FedProto"),
        (("tinyproto", {}), "TinyProto-FP"),
        (("tinyproto", {"base": "fedtgp"}), "TinyProto-FT"),
        (("cps_ppa_cpkd", {"masks": "none"}), "FedProto + PPA + CPKD"),
    ]:
        method, changes = fields
        made = config.experiment(method, "digits")
        made.update_from_flattened_dict({f"method.{k}": v for k, v in changes.items()})
        assert names.method(config.flat(made)) == want
    assert names.method({"method.name": "mine"}) == "mine"


def test_runs_of_a_method_are_told_apart_by_what_differs():
    def fields(**changes):
        given = {"method.name": "fedproto", "method.lam": 1.0, "data.name": "digits"}
        return given | {k.replace("__", "."): v for k, v in changes.items()}

    one, two = fields(), fields(method__lam=2.5)
    assert selection.labels([one, fields(method__name="local")], ["a", "b"]) == [
        "FedProto",
        "Local",
    ]
    told = ["FedProto (lam 1)", "FedProto (lam 2.5)"]
    assert selection.labels([one, two], ["a", "b"]) == told
    other = fields(data__name="tfds:fashion_mnist")
    told = ["FedProto (digits)", "FedProto (fashion_mnist)"]
    assert selection.labels([one, other], ["a", "b"]) == told
    many = one | {f"method.field{i}": i for i in range(9)}
    assert selection.labels([one, many], ["a", "b"]) == ["FedProto (a)", "FedProto (b)"]


def test_until_is_the_first_evaluation_at_the_target(tmp_path):
    rows = [
        {"round": r, "rules": {"head": {"pooled": a}}}
        for r, a in [(1, 0.5), (2, None), (3, 0.9), (4, 0.7), (5, 0.95)]
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    reached = partial(targets.reached, RunFolder(tmp_path, {}, None), measure=Measure())
    assert reached("head", target=90)["round"] == 3
    assert reached("head", target=95)["round"] == 5
    assert reached("head", target=95.1) is None
    assert reached("local", target=1) is None


@pytest.fixture
def workdirs(tmp_path):
    """Two seeds of FedProto, one of Local which has no rule `global`."""
    made = []
    for name, seed, rules in [
        ("fedproto", 0, ["global", "head"]),
        ("fedproto", 1, ["global", "head"]),
        ("local", 0, ["head"]),
    ]:
        path = tmp_path / f"{name}-{seed}"
        path.mkdir()
        c = config.experiment(name, "digits")
        c.seed = seed
        (path / "config.json").write_text(c.to_json())
        for row in run_of(rules, seed):
            records.append(path / "metrics.jsonl", row)
        made.append(str(path))
    return made


def test_until_has_a_bar_for_each_method(tmp_path, workdirs, monkeypatch):
    seen = []
    monkeypatch.setattr(plots, "until_bars", lambda *a: seen.append(a[1:]))
    out = str(tmp_path / "x.pdf")
    plot.main("plot", ["until", out, *workdirs, "--target", "86"])
    bars, title = seen[0]
    assert title.startswith("until 86 % test accuracy, rule head, pooled")
    assert [b.label for b in bars] == ["FedProto (2 seeds)", "Local (1 seed)"]
    assert bars[0].rounds == [40, 20] and bars[0].sent == [160_000, 80_000]
    assert bars[0].best == pytest.approx(91) and bars[1].rounds == [40]
    plot.main("plot", ["until", out, *workdirs, "--target", "99", "--rule", "global"])
    assert [b.rounds for b in seen[1][0]] == [[], []]
    assert [b.seeds for b in seen[1][0]] == [2, 0]
    with pytest.raises(UserError, match="--target=0 is no share"):
        plot.main("plot", ["until", out, *workdirs, "--target", "0"])


def test_a_command_draws_a_paper_size_under_a_name_of_old(tmp_path, workdirs):
    out = tmp_path / "x.svg"
    plot.main("plot", ["accuracy_over_rounds", str(out), *workdirs, "--size=column"])
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', out.read_text())
    assert float(width) == pytest.approx(72 * 3.25)
    assert "FedProto (2 seeds)" in out.read_text()


def test_pages_name_every_picture():
    text = (Path(__file__).parents[2] / "docs/how_to/pictures.md").read_text()
    from jaxproto.figures import registry

    for name in registry.PICTURES:
        assert f"`{name}`" in text, name
