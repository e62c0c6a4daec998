"""The page of what a client gives away says what messages hold, method by method."""

from pathlib import Path

import pytest

from jaxproto import config
from jaxproto.methods import METHODS
from jaxproto.report import disclosure

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

PAGE = (Path(__file__).parent.parent / "docs/how_to/privacy.md").read_text()
WAYS = ("once", "up first", "up", "down")


def on_the_page() -> dict[str, list[str]]:
    """Cells of the table by method."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {name.strip("`"): rest for name, *rest in cells}


@pytest.fixture(scope="module")
def view():
    """Every method with its defaults, on clients of one architecture."""
    made = config.experiment("fedavg", "digits")
    made.model.group, made.data.clients = "mlp", 3
    return disclosure.view(made, every=True)


def test_the_page_has_what_every_field_of_every_method_reveals(view):
    found = {name: {way: {} for way in WAYS} for name in METHODS}
    for name, way, *_, reveals in view.rows:
        found[name][way][reveals] = None
    listed = {
        name: [", ".join(ways[way]) for way in WAYS]
        for name, ways in found.items()
        if any(ways.values())
    }
    assert on_the_page() == listed
    assert {*METHODS} - {*listed} == {"local"}


def test_only_what_is_made_before_training_reveals_nothing(view):
    """Whatever a client or the server sends in a round is a function of data."""
    ways = {way for _, way, *_, reveals in view.rows if reveals == disclosure.NOTHING}
    assert ways == {"once"}


def test_every_label_is_explained_under_the_table_and_on_the_page(view):
    for label in {row[-1] for row in view.rows}:
        assert any(note.startswith(f"{label}: ") for note in view.notes)
    for label in disclosure.KNOWN:
        assert f"| {label} | " in PAGE
