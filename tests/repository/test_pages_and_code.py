"""docs/mechanism.md and docs/status.md: what they show and list is what is there."""

import dataclasses
import inspect
import pkgutil
import re
import sys
import threading
from pathlib import Path

import pytest
from support import quick, runs
from support.pages import DOCS, ROOT

from jaxproto import Method
from jaxproto.methods import METHODS
from jaxproto.models import NETS
from jaxproto.round import federation

quick_runs = quick.quick_runs  # a fixture of all tests here
MECHANISM = (DOCS / "mechanism.md").read_text()
STATUS = (DOCS / "status.md").read_text()
ROW = re.compile(r"^\| \[`(\w+)`\]\(\.\./(\S+)\) \| \[", re.MULTILINE)


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
        part = section(MECHANISM, title)
        steps = re.findall(r"^\|.*\| `([\w.]+)` \|$", part, re.M)
        assert len(steps) >= 10
        codes = {s: inspect.unwrap(pkgutil.resolve_name(s)).__code__ for s in steps}
        assert [step for step, code in codes.items() if code not in called] == []
    source = inspect.getsource(federation.one_round)
    assert source in MECHANISM and source in (ROOT / "README.md").read_text()


def test_tables_have_every_field_method_and_network_and_tests_that_exist():
    rows = re.findall(r"^\| `(\w+)` \|", MECHANISM, re.MULTILINE)
    assert {field.name for field in dataclasses.fields(Method)} - {*rows} == {"name"}
    for title, registry in (("Methods", METHODS), ("Networks", NETS)):
        made_by = (getattr(make, "func", make) for make in registry.values())
        sources = (Path(inspect.getsourcefile(make)) for make in made_by)
        paths = (source.relative_to(ROOT).as_posix() for source in sources)
        rows = ROW.findall(section(STATUS, title))
        assert rows == list(zip(registry, paths, strict=True))
    linked = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)#(\w+)\)", STATUS)
    assert len(linked) > len(METHODS) + len(NETS)
    text = {file: (ROOT / file).read_text() for file, _ in linked}
    assert [pair for pair in linked if f"\ndef {pair[1]}(" not in text[pair[0]]] == []
