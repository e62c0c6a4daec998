"""Callbacks of the cells of a sweep."""

import pytest
from rich.console import Console
from support import quick, told
from support.callbacks import Heard, StopAt2, several, table
from support.runs import small

import jaxproto
from jaxproto.errors import UserError
from jaxproto.lab.sweeps import SweepOptions
from jaxproto.storage import checkpoint, records

quick_runs = quick.quick_runs  # a fixture of all tests here


def test_objects_that_are_no_callbacks_of_cells_are_errors_before_the_folder_is_made(
    tmp_path,
):
    with pytest.raises(UserError, match=r"unknown writer 'tensorbord'.*'tensorboard'"):
        jaxproto.sweep(small(), {}, tmp_path / "run", callbacks="tensorbord")
    one_for_all = {"console": Console(quiet=True), "callbacks": [Heard()]}
    with pytest.raises(UserError, match="each cell of a sweep needs its own"):
        jaxproto.sweep(small(), {"seed": [0, 1]}, tmp_path / "run", **one_for_all)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "form", ["threads", pytest.param("all", marks=pytest.mark.long)]
)
def test_each_cell_of_a_sweep_has_its_own_callbacks(form, tmp_path):
    heard = []

    class OfCell(Heard):
        def __init__(self):
            super().__init__()
            heard.append(self)

    c, quiet = several(eval_every=1), Console(quiet=True)
    given = {"callbacks": ["csv", OfCell, StopAt2], "how": SweepOptions(form)}
    done = jaxproto.sweep(c, {"seed": [0, 1]}, tmp_path, quiet, **given)
    keys = ("status", "rounds", "reason")
    ends = {tuple(s[k] for k in keys) for s in done.summaries.values()}
    assert ends == {("stopped early", 2, "round 2: enough")} and len(heard) == 2
    for one in heard:
        assert one.names().count("on_evaluation") == 2
        assert one.names()[-2:] == ["on_checkpoint", "on_end"]
    for cell in done.plan.cells:
        want = told.expected(records.read(cell.path / "metrics.jsonl"))
        assert [*told.once(table(cell.path)).items()] == [*want.items()]
        assert checkpoint.rounds(cell.path / "checkpoints") == [2]
    assert (tmp_path / "sweep.csv").read_text().count("stopped early") > 0
