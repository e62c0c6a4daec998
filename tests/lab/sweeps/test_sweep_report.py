"""Outputs of a sweep's cells: table, comparison, pictures, lines."""

import csv
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from support.sweeping import console, planned

from jaxproto.lab import plots
from jaxproto.lab.plots import style
from jaxproto.lab.sweeps import live_table, outputs
from jaxproto.storage import records


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
    text = outputs.to_csv([made[0] | {"model.group": 'mlp,"a"'}, *made[1:]])
    found = list(csv.DictReader(io.StringIO(text)))
    assert [r["method.lam"] for r in found] == ["1.0"] * 12 + ["2.0"] * 6 + ["3.0"]
    assert {r["accuracy"] for r in found[12:]} == {""}
    assert (found[-1]["status"], found[-1]["rounds"]) == ("diverged", "0")
    assert found[0]["model.group"] == 'mlp,"a"' and [*made[0]][-1] == "workdir"


def test_means_over_seeds_and_validation_accuracy_choose_the_setting(sweep):
    """Setting 2 has the best run, setting 1 the better mean of seeds.

    A setting with a diverged seed comes last.
    """
    told = [({"head": x},) for x in (0.7, 0.9, 0.7, 0.4)]
    made = sweep(["seed=0,1", "method.lam=1,2"], *told)
    best, command = outputs.closing_lines(*made, "c")
    assert best == BEST.format("", 70.0, "method.lam=1, mean of 2 seeds")
    assert "--config.seed=0 --config.method.lam=1" in command
    made = sweep(["seed=0,1", "method.lam=1,2"], told[1], told[0], LOST, told[0])
    best, *_ = outputs.closing_lines(*made, "c")
    assert best == BEST.format("", 70.0, "method.lam=2, mean of 2 seeds")
    # Only if all cells have validation accuracy, it chooses.
    for second, lam, on in (((0.7, 0.8), 2, "validation"), (0.7, 1, "test")):
        told = ({"head": (0.9, 0.6)},), ({"head": second},)
        best, _ = outputs.closing_lines(*sweep(["method.lam=1,2"], *told), "c")
        value = {1: 90.0, 2: 70.0}[lam]
        assert best == CHOSEN.replace("ON", on).format("", value, f"method.lam={lam}")


def test_the_last_lines_have_the_best_that_has_finished_and_the_diverged(sweep):
    """By the first rule that all finished cells have."""
    texts = ["seed=0,1", 'model.group="mlp,cnn4_d",mlp']
    both, lost = {"local": 0.3, "head": 0.9}, ({"head": 0.95}, "diverged", 1)
    whole, summaries = sweep(texts, (both,), (HEAD,), lost, LOST)
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
    none = sweep(["method.lam=4,5"], (HEAD,), ({"local": 0.7},))
    assert outputs.closing_lines(*none, "c") == []


def test_pictures_are_of_fields_that_vary_the_heatmap_of_means_over_seeds(
    sweep, monkeypatch
):
    drawn = mock.Mock()
    monkeypatch.setattr(plots, "grid_heatmap", drawn)
    monkeypatch.setattr(outputs.from_records, "accuracy_against_field", mock.Mock())
    texts = ["method.upscale=1,3", "method.lam=0.1,1,10", "seed=0,1"]
    told = [({"head": v},) for v in (0.1, 0.3, 0.4, 0.4, 0.5, 0.7)]
    told += [({"head": 0.2},), LOST, LOST, LOST, ({"head": 0.6},), ({"head": 0.8},)]
    fields = "method.upscale", "method.lam"
    of_fields = [f"accuracy_against_{field}.png" for field in fields]
    made = outputs.pictures(*sweep(texts, *told))
    assert [path.name for path in made] == [*of_fields, "heatmap.png"]
    (_, table, rows, columns, labels, title), _ = drawn.call_args
    assert (rows, columns) == (["0.1", "1", "10"], ["1", "3"])
    assert labels == fields
    np.testing.assert_allclose(table, [[20, 20], [40, np.nan], [60, 70]])
    assert title == "test accuracy (%) of rule head, best test round, mean over seeds"
    for some in (["method.lam=1", "seed=0,1"], ["checkpoint_every=1,2"]):
        assert outputs.pictures(*sweep(some, (HEAD,), (HEAD,))) == []


def test_the_files_of_a_sweep_and_of_one_of_which_nothing_has_finished(sweep):
    """The comparison has one of the cells that differ only in a name."""
    texts = ["method.lam=1,2", "checkpoint_every=3,4"]
    whole, summaries = sweep(texts, (HEAD,), (HEAD,), LOST, (HEAD,))
    with mock.patch.object(outputs, "compare") as compare:
        compare.render.return_value = "| table |"
        made = outputs.write(whole, summaries)
    assert len(list(compare.group_by_seed.call_args[0][0])) == 2
    picture = "accuracy_against_method.lam.png"
    assert [path.name for path in made] == ["sweep.csv", "compare.md", picture]
    assert made[1].read_text() == "| table |"
    (table,) = outputs.write(*sweep(["method.lam=1,2"], LOST, LOST))
    assert table.name == "sweep.csv"


def test_the_board_tells_when_a_cell_ends_and_the_time_left(sweep):
    whole, summaries = sweep(["method.lam=1,2"], ({"head": 0.5, "local": 0.25},))
    (one, two), said = whole.cells, console()
    told = live_table.LiveTable(whole, said)
    told.ended(one, summaries[one.name], 1.25)
    told.ended(one, {"status": "diverged", "rounds": 1, "rules": {}}, 1.25)
    two.config.rounds = 4
    with told.progress(two, 4, 0, None) as progress:
        for r, seconds in ((1, 90.0), (2, 20.0), (3, 20.0)):  # the first compiles
            progress.round(r, seconds)
        told.console(two).print("a note")
    told.busy(two, "process 7 is running")  # it may be for a moment
    assert said.file.getvalue().splitlines() == [
        "method.lam=1: finished, best test round head 50.00%, 1.2 s",
        "method.lam=1: diverged, 1.2 s",
        "20 s a round: 0:00:40 for 2 rounds one after the other",
        "method.lam=2: a note",
    ]
    assert told.row(two).state == "busy elsewhere"


def test_cells_in_threads_draw_one_picture_at_a_time(tmp_path):
    """Threads share matplotlib's style and its parser of formulas."""
    both = threading.Barrier(2)

    def draw(k):
        with style.new_figure(tmp_path / f"{k}.png", (2.0, 2.0)) as figure:
            figure.subplots()
            with pytest.raises(threading.BrokenBarrierError):
                both.wait(0.5)  # for another one that is drawing

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(draw, range(2)))
