"""The HTML page of runs: its content, runs that it leaves out, its file."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.refusal import refused
from support.reported import figures_of, run, traces

from jaxproto.lab import html as page
from jaxproto.lab.callbacks.pictures import HostProtos
from jaxproto.lab.cli import report as command
from jaxproto.lab.html import document, prototypes

OLD = Path(__file__).parents[2] / "fixtures" / "run_of_03d3868"
NOW = "2030-01-02 03:04 UTC"
DIFFER, SAME = (f'id="table-{name}"' for name in ("differ", "same"))


@pytest.fixture(autouse=True)
def without_script(monkeypatch):
    """Pages of 30 kB, without the script of plotly."""
    monkeypatch.setattr(document, "_plotly", lambda: "")


def html_of(*workdirs, **more):
    return page.render_page(workdirs, NOW, **more).html


def texts(html):
    """The visible text of a page, without scripts."""
    html = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_runs_of_one_setting_are_a_line_with_its_mean_over_seeds(tmp_path):
    for seed, best in ((0, 0.6), (1, 0.8)):
        run(tmp_path / f"a-seed{seed}", seed=seed, best=best)
    run(tmp_path / "b", "local", rules=("head",))
    html = html_of(tmp_path)
    shown = traces(html, "plot-curves", rule="head", average="pooled")
    by_name = {trace.get("name"): trace for trace in shown}
    assert set(by_name) == {None, "FedProto", "Local (reference)"}  # None: of a band
    first, i = by_name["FedProto"], shown.index(by_name["FedProto"])
    low, high = shown[i - 2 : i]
    last = [trace["y"][-1] for trace in (low, first, high)]
    assert last == pytest.approx([60, 70, 80]) and high["fill"] == "tonexty"
    assert first["text"][-1] == " (2 seeds, 60.00 to 80.00)"
    x = figures_of(html)["plot-curves"]["layout"]["meta"]["x"][first["meta"]["x"]]
    assert x["bytes"] == [2000, 4000, 6000, 8000] and x["seconds"][-1] == 2.0
    assert "fedproto, local on digits: 3 runs" in texts(html)


def test_other_measures_of_the_records_can_be_chosen(tmp_path):
    path = run(tmp_path / "a", rounds=1)
    file = path / "metrics.jsonl"
    one = json.loads(file.read_text())
    f1, per_class = {"pooled": 0.25, "mean": 0.5}, {"pooled": [0.1, 0.2]}
    one["metrics"] = {"head": {"macro_f1": f1, "per_class": per_class}}
    file.write_text(json.dumps(one) + "\n")
    html = html_of(path)
    shown = {t["meta"]["when"][0]["measure"] for t in traces(html, "plot-curves")}
    assert shown == {"accuracy", "macro_f1"}
    for average, y in (("pooled", 0.25), ("client_mean", 0.5)):
        choice = {"measure": "macro_f1", "rule": "head", "average": average}
        assert [t["y"] for t in traces(html, "plot-curves", **choice)] == [[y]]


def test_the_status_of_every_run_is_shown(tmp_path):
    begun = run(tmp_path / "begun", status="")
    empty = run(tmp_path / "empty", seed=1, status="")
    (empty / "metrics.jsonl").unlink()
    html = html_of(begun, empty)
    said = texts(html)
    assert "not ended, round 3 of 4" in said and "not ended, round 0 of 4" in said
    assert "none of these runs is finished" in said  # in place of the comparison
    (line,) = traces(html, "plot-curves", rule="head", average="pooled")
    assert line["x"] == [1, 2, 3] and None not in line["y"]
    assert "No run has an evaluation yet." in texts(html_of(empty))


def test_diverged_and_collapsed_runs_come_first(tmp_path):
    lost = {"reason": "round 3: the loss of client 2 is nan"}
    run(tmp_path / "lost", status="diverged", summary=lost)
    run(tmp_path / "flat", "protonorm", summary={"collapsed": {"global": 2}})
    said = texts(html_of(tmp_path))
    assert "lost diverged: round 3: the loss of client 2 is nan" in said
    assert "flat collapsed: global 70.00 % since round 2 is the share of" in said
    assert said.index("flat collapsed") < said.index("Runs: last evaluation")


def test_a_damaged_run_is_named_and_left_out(tmp_path):
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad", seed=1, per_client=True)
    whole = (bad / "metrics.jsonl").read_text()
    for part, damage in (  # damage of a part is reported in its place
        ("partition.csv", "PK damaged"),
        ("metrics.jsonl", whole.replace('"id": [0, 1, 2]', '"id": [0, 1, 7]')),
    ):
        before = (bad / part).read_bytes()
        (bad / part).write_text(damage)
        html = html_of(bad)
        assert "plot-clients" not in figures_of(html)
        assert traces(html, "plot-curves") and "bad: " in texts(html), part
        (bad / part).write_bytes(before)
    for entry in ("rules", "bytes_total", "seconds", "metrics", "by_client"):
        rows = [json.loads(line) | {entry: "odd"} for line in whole.splitlines()]
        odd = "".join(f"{json.dumps(row)}\n" for row in rows)
        (bad / "metrics.jsonl").write_text(odd)
        made = page.render_page([good, bad], NOW)
        assert made.runs == 1 and [path for path, _ in made.left_out] == [str(bad)]
        said = texts(made.html)
        assert f"Left out: {bad}: " in said and f"{entry} is" in said
    with refused("there is no run to report"):
        page.render_page([bad], NOW)


def test_a_run_counts_once_and_a_sweep_is_found_by_its_folder(tmp_path, monkeypatch):
    """Its cells, and those that its table names, also from elsewhere."""
    path, copy = run(tmp_path / "a"), run(tmp_path / "copy")
    made = page.render_page([path, path, tmp_path / "." / "a", copy], NOW)
    assert made.runs == 1
    assert "same run as a: settings and seed agree" in texts(made.html)
    with refused("holds no run"):
        page.render_page([tmp_path / "nothing"], NOW)
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path / "base")
    run("runs/x", seed=0)
    run("sweeps/of/y", seed=1)
    table = "seed,workdir\r\n0,runs/x\r\n0,runs/x\r\n5,runs/gone\r\n"
    Path("sweeps/of/sweep.csv").write_text(table)
    base = Path.cwd()
    for folder, start in (("sweeps/of", base), (".", base / "sweeps/of")):
        monkeypatch.chdir(start)
        made = page.render_page([folder], NOW)
        assert made.runs == 2
        assert [path.endswith("runs/gone") for path, _ in made.left_out] == [True]


EVIL = "<script>alert(1)<!--"


def test_texts_of_users_stay_texts(tmp_path):
    lost = {"reason": "</script><script>alert(2)"}
    path = run(tmp_path / EVIL, status="diverged", summary=lost, name="</title>")
    (path / "classes.json").write_text(json.dumps({"<b>zero": 0, "\ud800": 1}))
    broken = run(tmp_path / "<img src=x onerror=alert(3)>", seed=1)
    (broken / "config.json").write_text("{")
    made = page.render_page([path, broken], NOW)
    for word in ("<script>alert", "<img", "<b>zero", "</title><", "<script>alert(2)"):
        assert word not in made.html
    assert "&lt;script&gt;alert(1)&lt;!--" in made.html
    assert "&lt;img src=x onerror=alert(3)&gt;" in made.html
    (first, *_) = traces(made.html, "plot-partition", partition="0")
    assert first["x"] == ["0 &lt;b&gt;zero", "1 \\ud800"]  # as plotly reads texts
    assert "&lt;script&gt;alert(1)&lt;!--: 3 clients" in texts(made.html)
    for figure in figures_of(made.html).values():
        assert "<script" not in json.dumps(figure) and "<b>" not in json.dumps(figure)


def test_clients_have_their_accuracies_where_records_list_them(tmp_path):
    kept = run(tmp_path / "kept", per_client=True)
    other = run(tmp_path / "other", "local", rules=("head",))
    html = html_of(kept, other)
    (head,) = traces(html, "plot-clients", rule="head")
    (other_rule,) = traces(html, "plot-clients", rule="global")
    assert head["x"] == [30, 10, 60] and "round 4" in head["hovertemplate"]
    assert head["y"] == [100, 100, 100] and other_rule["y"] == [50, 50, 50]
    assert head["customdata"] == [[0, 10], [1, 4], [2, 20]]  # id, test examples
    said = texts(html)
    assert "No accuracies of single clients in other" in said
    assert "other 4 head 40.00 10.00 0.00 100.00" in said


def test_a_partition_is_there_once_for_all_runs_that_have_it(tmp_path):
    paths = [run(tmp_path / f"run{seed}", seed=seed) for seed in range(3)]
    text = (paths[2] / "partition.csv").read_text()
    (paths[2] / "partition.csv").write_text(text.replace("60", "61"))
    html = html_of(*paths)
    first, second = traces(html, "plot-partition", split="train")
    assert first["y"] == ["2", "1", "0"]  # the first client is on top
    for one, last in ((first, 60), (second, 61)):
        assert one["customdata"] == [[0, last], [5, 5], [30, 0]]
    assert first["z"][2] == [round(np.log10(30), 3), None]
    assert "run0, run1: 3 clients, 2 classes, 100 training and 34 test" in texts(html)


def test_settings_say_what_differs_and_what_is_no_default_and_costs(tmp_path):
    a = run(tmp_path / "a", method__lam=0.5)
    b = run(tmp_path / "b", method__lam=2.5)
    html = html_of(a, b)
    differ = html[html.index(DIFFER) : html.index(SAME)]
    assert "method.lam" in differ and "2.5" in differ and "local.epochs" not in differ
    same = texts(html[html.index(SAME) :])
    assert re.search(r"rounds 4 300 ", same)  # with the default
    assert "method.lam" not in same
    said = texts(html_of(run(tmp_path / "c")))
    assert "FedProto 1.50 kB 500 B 8.00 kB 250 0.5 2 3.0" in said


def test_a_run_without_a_checkpoint_is_named(tmp_path):
    path = run(tmp_path / "a")
    assert "No checkpoint in a." in texts(html_of(path))
    assert "--prototypes=none" in texts(html_of(path, which="none"))
    (path / "checkpoints" / "4").mkdir(parents=True)
    said = texts(html_of(path))
    assert "No checkpoint" not in said and "a: " in said  # damaged, and why


@pytest.mark.long
def test_the_checkpoint_of_an_old_run_is_drawn_and_more_dimensions_by_tsne():
    html = html_of(OLD)
    (heatmap,) = traces(html, "plot-angles", run="0")
    local, all_of = traces(html, "plot-plane", run="0")
    assert "round 2: angles between global prototypes, 2 dimensions" in texts(html)
    assert len(all_of["x"]) == len(heatmap["z"]) == len(heatmap["z"][0])
    assert all_of["name"] == "global prototype" and "client" in local["customdata"][0]
    assert np.hypot(all_of["x"], all_of["y"]) == pytest.approx(10, 1e-3)
    # Absent classes have no angle; more dimensions are drawn by t-SNE.
    mean_CD = np.array([[1.0, 0, 0], [0, 2, 0], [3, 3, 0], [9, 9, 9]])
    found = prototypes.prototype_angles(HostProtos(mean_CD, np.array([1, 1, 1, 0])))
    assert np.allclose(found[0], [np.nan, 90, 45, np.nan], equal_nan=True)
    mean = np.random.default_rng(0).normal(size=(4, 3, 8))
    local = HostProtos(mean, np.ones((4, 3)))
    points, how = prototypes.plane(HostProtos(mean[0], np.ones(3)), local)
    assert points.place.shape == (15, 2) and np.isfinite(points.place).all()
    assert how.startswith("t-SNE (scikit-learn) of 8 dimensions, perplexity 4.67")
    few = HostProtos(mean[0, :2], np.ones(2))
    assert prototypes.plane(few, None)[0] is None


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path, monkeypatch):
    monkeypatch.undo()  # with the script
    html = html_of(run(tmp_path / "a"))
    assert 3_000_000 < len(html) < 6_000_000
    shell = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r'(src|href)=(?!"#|"data:,)', shell)
    assert "url(" not in shell and "@import" not in shell
    assert "default-src 'none'" in shell
    assert html.count("plotly.js v") == 1  # the beginning of its script
    assert html.count("</script>") == len(figures_of(html)) + 2 == 6


def test_the_command_writes_a_page_or_says_why_not(tmp_path, capsys, monkeypatch):
    path, out = run(tmp_path / "a"), tmp_path / "r.html"
    for _ in range(2):
        command.main("report", [str(path), str(tmp_path / "none"), f"--out={out}"])
        said = capsys.readouterr()
        assert said.out.startswith(f"1 run: written to {out} (")
        assert said.err.startswith(f"left out: {tmp_path / 'none'}: ")
    out.write_text("my own")  # a file that is no page stays
    with refused("--overwrite"):
        command.main("report", [str(path), f"--out={out}"])
    assert out.read_text() == "my own"
    command.main("report", [str(path), f"--out={out}", "--overwrite"])
    assert out.read_text().startswith("<!DOCTYPE html>")
    (tmp_path / "folder.html").mkdir()
    for name, message in (
        ("r.txt", "does not end in .html"),
        ("none/r.html", "its folder does not exist"),
        ("folder.html", "it is a folder"),
    ):
        with refused(message):
            command.main("report", [str(path), f"--out={tmp_path / name}"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with refused("jaxproto[report]"):
        page.render_page([path], NOW)
