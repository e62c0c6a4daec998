"""What is made of the cells of a sweep: table, comparison, pictures, lines."""

import csv
import io
from unittest import mock

import numpy as np
import pytest
from support.sweeping import console, planned

from jaxproto import plots
from jaxproto.storage import records
from jaxproto.sweeps import live_table, outputs
from jaxproto.sweeps.plan import select_part


def digest(best):
    """Of a best test accuracy, or of test and validation accuracy in one round."""
    if best is None:
        return {"best": None, "final": None, "mean_last": None, "last_n": 0}
    if isinstance(best, tuple):
        return digest(best[0]) | {"best_validation": best[1]}
    return {"best": best, "final": best - 0.1, "mean_last": best - 0.2, "last_n": 2}


def summary(path, best, status="finished", rounds=2):
    """Of rules with a best pooled accuracy; the clients' mean is half of it."""
    path.mkdir(parents=True, exist_ok=True)
    rules = {
        rule: {"pooled": digest(v), "client_mean": digest(v and np.max(v) / 2)}
        for rule, v in best.items()
    }
    made = {"status": status, "rounds": rounds, "rules": rules}
    made |= {"scalars_per_round": {"up": 1, "down": 1}, "seconds": {"round": 0.1}}
    records.write_json(path / "summary.json", made)
    return made


@pytest.fixture
def sweep(tmp_path):
    """A plan, and summaries of its cells from (best by rule, status) of each."""

    def make(texts, *told):
        whole = planned(texts, tmp_path)
        summaries = {}
        for cell, (best, *status) in zip(whole.cells, told, strict=False):
            summaries[cell.name] = summary(cell.path, best, *status)
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
    made = outputs.rows(*sweep(["method.lam=1,2"], (both,), (HEAD,)))
    assert len(made) == (2 + 1) * 2 * 3
    assert list(made[0].items())[:-1] == [
        *(("method.lam", 1.0), ("status", "finished"), ("rounds", 2)),
        *(("rule", "head"), ("average", "pooled"), ("statistic", "best")),
        ("accuracy", 0.5),
    ]
    assert [*made[0]][-1] == "workdir"
    of_local = [r for r in made if r["rule"] == "local"]
    assert {r["method.lam"] for r in of_local} == {1.0}
    assert [r["accuracy"] for r in of_local] == pytest.approx(
        [0.75, 0.65, 0.55, 0.375, 0.275, 0.175]
    )
    whole, summaries = sweep(
        ["method.lam=1,2,3"], (HEAD,), ({"head": None}, "diverged", 1), LOST
    )
    text = outputs.to_csv(outputs.rows(whole, summaries))
    assert text.endswith("\r\n") and text.count("\r\n") == text.count("\n")
    found = list(csv.DictReader(io.StringIO(text)))
    assert [r["method.lam"] for r in found] == ["1.0"] * 6 + ["2.0"] * 6 + ["3.0"]
    assert {r["accuracy"] for r in found[6:]} == {""}
    assert found[-1]["status"] == "diverged" and found[-1]["rounds"] == "0"
    text = outputs.to_csv([{"model.group": 'mlp,"cnn4_d"', "accuracy": 0.5}])
    (quoted,) = csv.DictReader(io.StringIO(text))
    assert quoted == {"model.group": 'mlp,"cnn4_d"', "accuracy": "0.5"}


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


def test_no_seed_wins_a_sweep(sweep):
    """Setting 2 has the best run, setting 1 the better mean."""
    told = [({"head": x},) for x in (0.7, 0.9, 0.7, 0.4)]
    whole, summaries = sweep(["seed=0,1", "method.lam=1,2"], *told)
    best, command = outputs.closing_lines(whole, summaries, "c")
    assert best == BEST.format("", 70.0, "method.lam=1, mean of 2 seeds")
    assert "--config.seed=0 --config.method.lam=1" in command


def test_validation_accuracy_chooses_the_setting_if_all_cells_have_it(sweep):
    """Setting 1 has the better test accuracy, setting 2 the better validation."""
    for second, lam, on in (((0.7, 0.8), 2, "validation"), (0.7, 1, "test")):
        told = ({"head": (0.9, 0.6)},), ({"head": second},)
        made = sweep(["method.lam=1,2"], *told)
        best, _ = outputs.closing_lines(*made, "c")
        value = {1: 90.0, 2: 70.0}[lam]
        assert best == CHOSEN.replace("ON", on).format("", value, f"method.lam={lam}")


def test_the_last_lines_have_the_best_of_what_has_ended_and_the_diverged(sweep):
    texts = ["seed=0,1", 'model.group="mlp,cnn4_d",mlp']
    whole, summaries = sweep(texts, ({"head": 0.9},), (HEAD,), LOST, LOST)
    best, command, lost = outputs.closing_lines(
        whole, summaries, "python main.py --config=x"
    )
    assert best == BEST.format("", 90.0, "seed=0, model.group=mlp,cnn4_d")
    where = whole.cells[0].path
    assert command == (
        "  python main.py --config=x --config.seed=0 --config.model.group=mlp,cnn4_d "
        f"--workdir={where}"
    )
    assert lost == "2 diverged: seed=1, model.group=mlp,cnn4_d, seed=1, model.group=mlp"
    whole, summaries = sweep(["method.lam=1,2,3"], ({"head": 0.4},))
    assert len(summaries) == 1  # those of a part
    (best, _) = outputs.closing_lines(whole, summaries, "c")
    assert best == BEST.format(" so far", 40.0, "method.lam=1")
    assert outputs.closing_lines(whole, {}, "c") == []


def names(paths):
    return [path.name for path in paths]


def test_pictures_of_one_field_and_of_two(sweep):
    """A field that does not vary or changes no number has none."""
    against = "accuracy_against_method"
    texts = ["method.lam=1,10", "method.upscale=1,3"]
    made = outputs.pictures(*sweep(texts, *[(HEAD,)] * 4))
    assert names(made) == [
        f"{against}.lam.png",
        f"{against}.upscale.png",
        "heatmap.png",
    ]
    assert all(path.stat().st_size > 5000 for path in made)
    made = outputs.pictures(*sweep(["seed=0,1", texts[0]], *[(HEAD,)] * 4))
    assert names(made) == [f"{against}.lam.png"]
    for some in (["seed=0,1"], ["method.lam=1", "seed=0,1"], ["checkpoint_every=1,2"]):
        assert outputs.pictures(*sweep(some, (HEAD,), (HEAD,))) == []


def test_the_heatmap_has_means_over_seeds_and_gaps(sweep, monkeypatch):
    drawn = mock.Mock()
    monkeypatch.setattr(plots, "grid_heatmap", drawn)
    monkeypatch.setattr(outputs.from_records, "accuracy_against_field", mock.Mock())
    texts = ["method.upscale=1,3", "method.lam=0.1,1,10", "seed=0,1"]
    told = [({"head": v},) for v in (0.1, 0.3, 0.4, 0.4, 0.5, 0.7)]
    told += [({"head": 0.2},), LOST, LOST, LOST, ({"head": 0.6},), ({"head": 0.8},)]
    whole, summaries = sweep(texts, *told)
    assert names(outputs.pictures(whole, summaries))[-1] == "heatmap.png"
    (_, table, rows, columns, labels, title), _ = drawn.call_args
    assert (rows, columns) == (["0.1", "1", "10"], ["1", "3"])
    assert labels == ("method.upscale", "method.lam")
    np.testing.assert_allclose(table, [[20, 20], [40, np.nan], [60, 70]])
    assert title == "test accuracy (%) of rule head, best test round, mean over seeds"


def test_the_files_of_a_sweep_and_of_one_of_which_nothing_has_finished(sweep):
    """Of cells that are the same but for a name the comparison has one."""
    texts = ["method.lam=1,2", "checkpoint_every=3,4"]
    whole, summaries = sweep(texts, (HEAD,), (HEAD,), LOST, (HEAD,))
    assert [c.name for c in outputs.finished(whole, summaries)] == [
        "method.lam=1, checkpoint_every=3",
        "method.lam=2, checkpoint_every=4",
    ]
    with mock.patch.object(outputs, "compare") as compare:
        compare.render.return_value = "| table |"
        made = outputs.write(whole, summaries)
    assert len(list(compare.group_by_seed.call_args[0][0])) == 2
    picture = "accuracy_against_method.lam.png"
    assert names(made) == ["sweep.csv", "compare.md", picture]
    assert made[1].read_text() == "| table |"
    assert names(outputs.write(*sweep(["method.lam=1,2"], LOST, LOST))) == ["sweep.csv"]


def shown(whole):
    made = console()
    return live_table.LiveTable(whole, made), made.file


def test_the_plan_in_lines_and_of_how_many_cells_a_part_is(sweep):
    texts = ["seed=0,1", "local.epochs=1,2", "method.lam=1,2+method.upscale=3,4"]
    whole, _ = sweep(texts, (HEAD,), LOST)
    assert live_table.plan_lines(whole, 3 * 2**20) == [
        "sweep: 8 cells = 2 seed x 2 local.epochs x 2 method.lam+method.upscale",
        "2 set(s) of programs, of 4, 4 cells",
        "2 ended before, 0 begun, 6 new",
        "about 3 MiB for the data and state of one cell",
        f"table and pictures: {whole.folder}",
    ]
    whole, _ = sweep(["seed=0:3"])
    assert (
        live_table.plan_lines(select_part(whole, 0, 3), 0)[0]
        == "sweep: 1 of 3 cells = 3 seed"
    )
    assert (
        live_table.plan_lines(select_part(whole, 0, 1), 0)[0]
        == "sweep: 3 cells = 3 seed"
    )


def test_the_board_tells_when_a_cell_ends_and_the_time_left(sweep, monkeypatch):
    whole, summaries = sweep(["method.lam=1,2"], ({"head": 0.5, "local": 0.25},))
    (one, two), (told, text) = whole.cells, shown(whole)
    told.ended(one, summaries[one.name], 1.25)
    two.config.rounds = 4
    with told.progress(two, 4, 0, None) as progress:
        progress.round(1, 90.0)  # which compiles
        progress.round(2, 20.0)
        progress.round(3, 20.0)
        told.console(two).print("a note")
    assert text.getvalue().splitlines() == [
        "method.lam=1: finished, best test round head 50.00%, 1.2 s",
        "20 s a round: 0:00:40 for 2 rounds one after the other",
        "method.lam=2: a note",
    ]
    told.busy(two, "process 7 is running")
    assert told.row(two).state == "busy elsewhere"
    assert "process 7" not in text.getvalue()  # it may be for a moment
    monkeypatch.setattr(live_table.file_lock, "NOTICE", -1.0)
    for _ in range(2):
        told.busy(two, "process 7 is running")
    assert text.getvalue().endswith("method.lam=2: waiting, process 7 is running\n")
    assert text.getvalue().count("process 7") == 1
    one_cell, _ = sweep(["seed=0"])
    told, text = shown(one_cell)
    with told.progress(one_cell.cells[0], 2, 0, None) as progress:
        progress.round(1, 9.0)
        progress.round(2, 0.5)
    assert text.getvalue() == ""  # no round is left
    whole, _ = sweep(["seed=0:21"])
    told, _ = shown(whole)
    assert told.table().row_count == 0  # of many, those that are running
    told.set(whole.cells[3], state="running", round=1, seconds=(4.0, 60.0, 61.0))
    assert told.table().row_count == 1
    row = told.row(whole.cells[3])
    assert live_table.time_left(whole.cells[3], row) == "0:01:00"
    assert live_table.time_left(whole.cells[0], told.row(whole.cells[0])) == ""
