"""The page of what a client gives away says what messages hold, method by method."""

import json
import re

import pytest
from support.refusal import refused
from support.runs import ROOT, digits

import jaxproto
from jaxproto.attacks import disclosure
from jaxproto.features.privacy import accounting
from jaxproto.methods import METHODS

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

LEAKS = sorted((ROOT / "results" / "leakage").glob("*.json"))
IMAGES = sorted((ROOT / "results" / "leakage").glob("[!p]*/updates.json"))  # exact
PAGES = ("docs/how_to/privacy.md", "docs/measurements/privacy.md")
HOW_TO, MEASURED = ((ROOT / page).read_text() for page in PAGES)
TABLE = MEASURED.partition("## Attacks")[0]  # of all methods
WAYS = ("once", "up first", "up", "down")


def on_the_page() -> dict[str, list[str]]:
    """Cells of the table by method."""
    rows = [line for line in TABLE.splitlines() if line.startswith("| `")]
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {name.strip("`"): rest for name, *rest in cells}


@pytest.fixture(scope="module")
def view():
    """Every method with its defaults, on clients of one architecture."""
    made = digits("fedmd")  # which needs public examples
    return disclosure.view(made, every=True)


def test_the_page_has_what_every_field_of_every_method_reveals(view):
    found = {name: {way: {} for way in WAYS} for name in METHODS}
    for name, way, *_, reveals in view.rows:
        found[name][way][reveals] = None
    there = {name: ways for name, ways in found.items() if any(ways.values())}
    listed = {k: [", ".join(ways[way]) for way in WAYS] for k, ways in there.items()}
    assert on_the_page() == listed
    assert {*METHODS} - {*listed} == {"local"}
    # Only what is made before training is no function of data.
    ways = {way for _, way, *_, reveals in view.rows if reveals == disclosure.NOTHING}
    assert ways == {"once"}
    for label in {row[-1] for row in view.rows}:  # is explained
        assert any(note.startswith(f"{label}: ") for note in view.notes)
    assert [label for label in disclosure.KNOWN if f"| {label} | " not in HOW_TO] == []


def test_what_is_cited_as_measured_is_in_the_tables_of_the_run(view):
    rows = [row for file in LEAKS for row in json.loads(file.read_text())["rows"]]
    there = {str(v) for row in rows for v in row.values() if isinstance(v, float)}
    for label, text in disclosure.MEASURED.items():
        cited = set(re.findall(r"\d+\.\d+", text))
        assert cited and cited <= there, (label, cited - there)
        assert f"{label}, measured: {text}" in view.notes
    exact = [json.loads(file.read_text())["rows"][0] for file in IMAGES]
    assert len(exact) == 2 and {row["format"] for row in exact} == {"float32"}
    for row in exact:
        back = f"{row['images back']} of {row['examples']}"
        assert back in " ".join(disclosure.MEASURED[disclosure.VALUES].split())
        assert (
            f"| {row['examples']} | {row['images back']} | {row['kept']} |" in MEASURED
        )


def test_under_privacy_uploads_have_noise_and_clients_weigh_the_same(monkeypatch):
    monkeypatch.setattr(accounting, "check_installed", lambda: None)
    spent = {"privacy": {"epsilon": 4.983, "delta": 1e-5}}
    monkeypatch.setattr(disclosure, "privacy_ledger", lambda *_: lambda rounds: spent)
    for unit, size in (("client", disclosure.ONE), ("example", disclosure.NUMBERS)):
        c = digits("fedproto", privacy__unit=unit)
        found = disclosure.view(c, False)
        up = {reveals for way, *_, reveals in found.rows if way == "up"}
        assert up == {disclosure.EVERY, "class means with noise"}
        (said,) = (n for n in found.notes if n.startswith("class means with noise: "))
        assert f"(epsilon 4.98, delta 1e-05) after {c.rounds} rounds" in said
        assert disclosure.GUARANTEE[unit] in said
        assert not any("class means, measured" in note for note in found.notes)
        found = disclosure.view(digits("fedavg", privacy__unit=unit), False)
        up = {reveals for way, *_, reveals in found.rows if way == "up"}
        assert up == {"trained values with noise", size}
    with refused("leave out --all"):
        disclosure.view(digits("fedavg", privacy__unit="client"), True)


def test_python_has_the_table_of_the_command_as_a_data_frame():
    c = digits("fedproto")
    frame, view = jaxproto.disclosure(c), disclosure.view(c, False)
    assert frame.columns.tolist() == [*view.head]
    assert [*frame.itertuples(index=False, name=None)] == [*view.rows]
    assert frame.attrs["notes"] == view.notes
