"""The pages of methods and internals, and their tables, list what is there."""

import csv
import dataclasses
import inspect
import pkgutil
import re
import sys
import threading

import pytest
from support import quick, runs
from support.pages import DOCS, ROOT

from jaxproto import Method
from jaxproto.methods import METHODS
from jaxproto.models import NETS
from jaxproto.round import federation

quick_runs = quick.quick_runs  # a fixture of all tests here
INTERFACE = (DOCS / "method_interface.md").read_text()
INTERNALS = (DOCS / "internals.md").read_text()


def section(page, title):
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def called_in_a_run(path):
    """The code of every function that a run calls, in all threads."""
    found = set()

    def note(frame, event, _):
        if event == "call":
            found.add(frame.f_code)

    part = {"participation__law": "uniform", "participation__fraction": 0.5}
    part |= {"data__clients": 4, "local__batch_size": 100}
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        runs.run(runs.digits(**part), path)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


@pytest.mark.long
def test_a_run_calls_every_step_of_both_paths_and_pages_show_the_round(tmp_path):
    called = called_in_a_run(tmp_path)
    for title in ("The path of an upload", "The path of a client"):
        part = section(INTERNALS, title)
        steps = re.findall(r"^\|.*\| `([\w.]+)` \|$", part, re.M)
        assert len(steps) >= 10
        codes = {s: inspect.unwrap(pkgutil.resolve_name(s)).__code__ for s in steps}
        assert [step for step, code in codes.items() if code not in called] == []
    source = inspect.getsource(federation.one_round)
    assert source in INTERNALS


def table(name):
    """Rows of a CSV of the pages."""
    with (DOCS / name).open() as file:
        return list(csv.DictReader(file))


def test_tables_have_every_field_method_and_network_and_tests_that_exist():
    rows = re.findall(r"^\| `(\w+)` \|", INTERFACE, re.MULTILINE)
    assert {field.name for field in dataclasses.fields(Method)} - {*rows} == {"name"}
    checks = table("checks.csv")
    for kind, registry in (("method", METHODS), ("network", NETS)):
        names = (row["name"] for row in checks if row["kind"] == kind)
        assert [*dict.fromkeys(names)] == [*registry]
    text = {row["file"]: (ROOT / row["file"]).read_text() for row in checks}
    missing = [r for r in checks if f"\ndef {r['test']}(" not in text[r["file"]]]
    assert missing == []


def test_the_table_of_methods_has_the_papers_that_docstrings_cite():
    rows = table("methods.csv")
    assert [row["name"] for row in rows] == [*METHODS]
    for row in rows:
        text = inspect.getdoc(inspect.getmodule(METHODS[row["name"]]))
        first, year = row["paper"].split(" ")[0], row["year"]
        assert first.strip(",") in text, row
        assert year in text or f"arxiv.org/abs/{year[2:]}" in text, row
