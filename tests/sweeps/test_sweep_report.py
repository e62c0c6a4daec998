"""Outputs of a sweep's cells: table, comparison, pictures, lines."""

import csv
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from matplotlib import mathtext
from support.sweeping import console, planned

from jaxproto import plots
from jaxproto.plots import style
from jaxproto.storage import records
from jaxproto.sweeps import live_table, outputs


def digest(best):
    """Makes a digest from a best test accuracy, or test and validation accuracy."""
    if best is None:
        return {"best": None, "final": None, "mean_last": None, "last_n": 0}
    if isinstance(best, tuple):
        return digest(best[0]) | {"best_validation": best[1]}
    return {"best": best, "final": best - 0.1, "mean_last": best - 0.2, "last_n": 2}


@pytest.fixture
def sweep(tmp_path):
    """A plan, and summaries of its cells from (best by rule, status, rounds) of each.

    The clients' mean is half of the pooled accuracy.
    """

    def make(texts, *told):
        whole, summaries = planned(texts, tmp_path), {}
        for cell, (best, *more) in zip(whole.cells, told, strict=False):
            cell.path.mkdir(parents=True, exist_ok=True)
            status, rounds = more or ("finished", 2)
            each = (
                (r, digest(v), digest(v and np.max(v) / 2)) for r, v in best.items()
            )
            both = {r: {"pooled": v, "client_mean": mean} for r, v, mean in each}
            made = {"status": status, "rounds": rounds, "rules": both}
            made |= {"scalars_per_round": {"up": 1, "down": 1}}
            summaries[cell.name] = made
            records.write_json(cell.path / "summary.json", made)
            (cell.path / "config.json").write_text(cell.config.to_json())
            rules = {r: {"pooled": v} for r, v in best.items()}
            records.append(cell.path / "metrics.jsonl", {"round": 2, "rules": rules})
        return whole, summaries

    return make


HEAD = {"head": 0.5}
CHOSEN = "best{} by rule head (the best ON round, chosen on ON data): {:.2f} % with {}:"
BEST = CHOSEN.replace("ON", "test")
LOST = ({}, "diverged", 0)  # before its first evaluation


def test_rows_are_tidy_and_their_csv_has_diverged_cells_and_quotes_commas(sweep):
    both = {"head": 0.5, "local": 0.75}
    told = (both,), ({"head": None}, "diverged", 1), LOST
    made = outputs.rows(*sweep(["method.lam=1,2,3"], *told))
    assert list(made[0].items())[:-1] == [
        *(("method.lam", 1.0), ("status", "finished"), ("rounds", 2)),
        *(("rule", "head"), ("average", "pooled"), ("statistic", "best")),
        ("accuracy", 0.5),
    ]
    of_local = [r["accuracy"] for r in made if r["rule"] == "local"]
    assert of_local == pytest.approx([0.75, 0.65, 0.55, 0.375, 0.275, 0.175])
    text = outputs.to_csv([made[0] | {"model.group": 'mlp,"a"'}, *made[1:]])
    found = list(csv.DictReader(io.StringIO(text)))
    assert [r["method.lam"] for r in found] == ["1.0"] * 12 + ["2.0"] * 6 + ["3.0"]
    assert {r["accuracy"] for r in found[12:]} == {""}
    assert (found[-1]["status"], found[-1]["rounds"]) == ("diverged", "0")
    assert found[0]["model.group"] == 'mlp,"a"' and [*made[0]][-1] == "workdir"


def test_the_main_rule_and_the_best_setting_are_of_finished_cells(sweep):
    """A rule that every one of them has."""
    both, one = {"head": 0.5, "local": 0.9}, {"local": 0.7}
    for lam, told, want in (
        ("1,2,3", ((both,), (one,), LOST), "local"),
        ("4,5", ((HEAD,), (one,)), ""),
        ("6,7", (LOST, LOST), ""),
    ):
        assert outputs.main_rule(sweep([f"method.lam={lam}"], *told)[1]) == want
    told = ({"head": 0.3},), ({"head": 0.6},), ({"head": 0.9}, "diverged", 1), LOST
    made = sweep(["method.lam=1,2,3,4"], *told)
    (best,), value = outputs.best_setting(*made, "head")
    assert best.changes == {"method.lam": 2.0} and value == pytest.approx(60.0)
    assert outputs.best_setting(*made, "global") is None


def test_means_over_seeds_and_validation_accuracy_choose_the_setting(sweep):
    """Setting 2 has the best run, setting 1 the better mean of seeds."""
    told = [({"head": x},) for x in (0.7, 0.9, 0.7, 0.4)]
    made = sweep(["seed=0,1", "method.lam=1,2"], *told)
    best, command = outputs.closing_lines(*made, "c")
    assert best == BEST.format("", 70.0, "method.lam=1, mean of 2 seeds")
    assert "--config.seed=0 --config.method.lam=1" in command
    # Only if all cells have validation accuracy, it chooses.
    for second, lam, on in (((0.7, 0.8), 2, "validation"), (0.7, 1, "test")):
        told = ({"head": (0.9, 0.6)},), ({"head": second},)
        best, _ = outputs.closing_lines(*sweep(["method.lam=1,2"], *told), "c")
        value = {1: 90.0, 2: 70.0}[lam]
        assert best == CHOSEN.replace("ON", on).format("", value, f"method.lam={lam}")


def test_the_last_lines_have_the_best_of_what_has_ended_and_the_diverged(sweep):
    texts = ["seed=0,1", 'model.group="mlp,cnn4_d",mlp']
    whole, summaries = sweep(texts, ({"head": 0.9},), (HEAD,), LOST, LOST)
    best, command, lost = outputs.closing_lines(whole, summaries, "main.py --config=x")
    assert best == BEST.format("", 90.0, "seed=0, model.group=mlp,cnn4_d")
    fields = "--config.seed=0 --config.model.group=mlp,cnn4_d"
    where = f"--workdir={whole.cells[0].path}"
    assert command == f"  main.py --config=x {fields} {where}"
    assert lost == "2 diverged: seed=1, model.group=mlp,cnn4_d, seed=1, model.group=mlp"
    whole, summaries = sweep(["method.lam=1,2,3"], ({"head": 0.4},))  # of a part
    (best, _) = outputs.closing_lines(whole, summaries, "c")
    assert best == BEST.format(" so far", 40.0, "method.lam=1")
    assert outputs.closing_lines(whole, {}, "c") == []


def names(paths):
    return [path.name for path in paths]


def test_pictures_are_of_fields_that_vary_and_change_numbers(sweep):
    lam, one = "method.lam=1,10", "accuracy_against_method.lam.png"
    made = outputs.pictures(*sweep([lam, "method.upscale=1,3"], *[(HEAD,)] * 4))
    other = "accuracy_against_method.upscale.png"
    assert names(made) == [one, other, "heatmap.png"]
    assert all(path.stat().st_size > 5000 for path in made)
    for some in (["seed=0,1"], ["method.lam=1", "seed=0,1"], ["checkpoint_every=1,2"]):
        assert outputs.pictures(*sweep(some, (HEAD,), (HEAD,))) == []


def test_the_heatmap_has_means_over_seeds_and_gaps(sweep, monkeypatch):
    drawn = mock.Mock()
    monkeypatch.setattr(plots, "grid_heatmap", drawn)
    monkeypatch.setattr(outputs.from_records, "accuracy_against_field", mock.Mock())
    texts = ["method.upscale=1,3", "method.lam=0.1,1,10", "seed=0,1"]
    told = [({"head": v},) for v in (0.1, 0.3, 0.4, 0.4, 0.5, 0.7)]
    told += [({"head": 0.2},), LOST, LOST, LOST, ({"head": 0.6},), ({"head": 0.8},)]
    assert names(outputs.pictures(*sweep(texts, *told)))[-1] == "heatmap.png"
    (_, table, rows, columns, labels, title), _ = drawn.call_args
    assert (rows, columns) == (["0.1", "1", "10"], ["1", "3"])
    assert labels == ("method.upscale", "method.lam")
    np.testing.assert_allclose(table, [[20, 20], [40, np.nan], [60, 70]])
    assert title == "test accuracy (%) of rule head, best test round, mean over seeds"


def test_the_files_of_a_sweep_and_of_one_of_which_nothing_has_finished(sweep):
    """The comparison has one of the cells that differ only in a name."""
    texts = ["method.lam=1,2", "checkpoint_every=3,4"]
    whole, summaries = sweep(texts, (HEAD,), (HEAD,), LOST, (HEAD,))
    with mock.patch.object(outputs, "compare") as compare:
        compare.render.return_value = "| table |"
        made = outputs.write(whole, summaries)
    assert len(list(compare.group_by_seed.call_args[0][0])) == 2
    picture = "accuracy_against_method.lam.png"
    assert names(made) == ["sweep.csv", "compare.md", picture]
    assert made[1].read_text() == "| table |"
    assert names(outputs.write(*sweep(["method.lam=1,2"], LOST, LOST))) == ["sweep.csv"]


def test_the_board_tells_when_a_cell_ends_and_the_time_left(sweep, monkeypatch):
    whole, summaries = sweep(["method.lam=1,2"], ({"head": 0.5, "local": 0.25},))
    (one, two), said = whole.cells, console()
    told = live_table.LiveTable(whole, said)
    told.ended(one, summaries[one.name], 1.25)
    two.config.rounds = 4
    with told.progress(two, 4, 0, None) as progress:
        for r, seconds in ((1, 90.0), (2, 20.0), (3, 20.0)):  # the first compiles
            progress.round(r, seconds)
        told.console(two).print("a note")
    told.busy(two, "process 7 is running")  # it may be for a moment
    assert said.file.getvalue().splitlines() == [
        "method.lam=1: finished, best test round head 50.00%, 1.2 s",
        "20 s a round: 0:00:40 for 2 rounds one after the other",
        "method.lam=2: a note",
    ]
    assert told.row(two).state == "busy elsewhere"
    monkeypatch.setattr(live_table.file_lock, "NOTICE", -1.0)
    for _ in range(2):
        told.busy(two, "process 7 is running")
    waits = "method.lam=2: waiting, process 7 is running\n"
    assert said.file.getvalue().count("process 7") == 1
    assert said.file.getvalue().endswith(waits)


def test_pictures_of_cells_in_threads_are_those_of_one(tmp_path, monkeypatch):
    # Nothing is remembered of formulas, nor their parser: each picture parses its own.
    plain = mathtext.MathTextParser._parse_cached.__wrapped__
    monkeypatch.setattr(mathtext.MathTextParser, "_parse_cached", plain)

    def draw(file):
        with style.new_figure(file, (2.0, 2.0)) as figure:
            figure.subplots().set_title(rf"$\times 10^{{{file.stem[-1]}}}$")
        return file.read_bytes()

    one = [draw(tmp_path / f"one{k}.png") for k in range(6)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 1000)  # so often threads take turns
    try:
        with ThreadPoolExecutor(3) as pool:
            many = [*pool.map(draw, (tmp_path / f"many{k}.png" for k in range(6)))]
    finally:
        sys.setswitchinterval(before)
    assert many == one and len({*one}) == len(one)
