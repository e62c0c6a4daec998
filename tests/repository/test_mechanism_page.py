"""docs/mechanism.md: the round that it shows, and the paths that it follows."""

import dataclasses
import importlib
import inspect
import re
import sys
import threading

from support import runs, selection

from jaxproto import Method, federation

PAGE = (selection.ROOT / "docs" / "mechanism.md").read_text()


def test_page_and_readme_show_the_round():
    source = inspect.getsource(federation.one_round)
    readme = (selection.ROOT / "README.md").read_text()
    assert source in PAGE and source in readme


def named(path):
    """The function of a dotted path."""
    words = path.split(".")
    for n in range(len(words) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(words[:n]))
        except ModuleNotFoundError:
            continue
        for word in words[n:]:
            found = getattr(found, word)
        return inspect.unwrap(found)
    raise AssertionError(f"there is no {path}")


def steps(title):
    """The functions of a table of steps."""
    part = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\|.*\| `([\w.]+)` \|$", part, re.M)


def called_in_a_run(path):
    """The code of every function that a run calls, in all threads."""
    found = set()

    def note(frame, event, _):
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        part = {"participation__law": "uniform", "participation__fraction": 0.5}
        c = runs.small("fedproto", "digits", data__clients=4, rounds=1, **part)
        c.model.group = "mlp"
        runs.run(c, path)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def test_a_run_calls_every_step_of_both_paths(tmp_path):
    paths = [steps("The path of an upload"), steps("The path of a client")]
    assert all(len(path) >= 10 for path in paths)
    called = called_in_a_run(tmp_path)
    wanted = [name for path in paths for name in path]
    assert [name for name in wanted if named(name).__code__ not in called] == []


def test_the_table_of_methods_has_every_field():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {field.name for field in dataclasses.fields(Method)} - {*rows} == {"name"}
