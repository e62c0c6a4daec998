"""The tour of `colab/` runs from top to bottom."""

from pathlib import Path

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.long

TOUR = Path(__file__).parent.parent / "colab" / "jaxproto_tour.ipynb"


def test_the_tour_runs_and_ends_with_a_table_of_its_three_methods(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(TOUR.parent.parent))
    tour = nbformat.read(TOUR, as_version=4)
    options = {"resources": {"metadata": {"path": str(tmp_path)}}, "timeout": 600}
    nbclient.NotebookClient(tour, kernel_name="python3", **options).execute()
    table = tour.cells[-1].outputs[-1]["data"]["text/markdown"]
    assert {"protonorm", "fedproto", "slow_fedproto"} <= {*table.split()}
    shown = [o for c in tour.cells if c.cell_type == "code" for o in c.outputs]
    assert sum("image/png" in o.get("data", {}) for o in shown) == 4


def test_the_tour_is_saved_without_outputs():
    tour = nbformat.read(TOUR, as_version=4)
    assert all(not c.get("outputs") for c in tour.cells)
    assert all(c.get("execution_count") is None for c in tour.cells)
