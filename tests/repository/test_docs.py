"""The pages: their Python runs from top to bottom, their commands have real flags."""

import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest
from rich.console import Console
from support import pages, runs
from support.pages import DOCS, FENCE, ROOT, TUTORIALS, blocks

import jaxproto
from jaxproto import cli, config
from jaxproto.methods import METHODS

SCRIPTS = [*TUTORIALS, DOCS / "how_to/metrics.md", DOCS / "how_to/notebook.md"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
URL = re.compile(r"https://github\.com/jaxproto/jaxproto/(?:blob|tree)/main/(.*)")
MADE = re.compile(r"configs/(mine|\$method)\.py")  # by the reader, or by a loop

cache = runs.cache
elsewhere = pages.elsewhere


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Command of the package and its arguments, of every command line on a page."""
    text = "".join(code for kind in ("", "bash") for _, code in blocks(page, kind))
    lines = re.findall(r"(?:main\.py|-m jaxproto)\b[^\n|&]*", text)
    words = [shlex.split(line, comments=True) for line in lines]
    return [("run", w[1:]) if w[0] == "main.py" else (w[2], w[3:]) for w in words]


def execute(page: Path, namespace: dict):
    """All Python of a page, in one namespace; errors name the line of the page."""
    found = blocks(page, "python")
    assert found, f"{page.name} has no Python"
    for line, code in found:
        exec(compile("\n" * line + code, page, "exec"), namespace)


@pytest.mark.long
@pytest.mark.parametrize("page", SCRIPTS, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page, elsewhere):
    execute(page, {"__name__": page.stem})


def test_the_method_of_contributing_runs_beside_the_others(elsewhere):
    """The two files that it asks for: a module of the package, a configuration."""
    (_, method), (_, file) = blocks(ROOT / "CONTRIBUTING.md", "python")
    namespace = {"__name__": "mine"}
    exec(method, namespace)
    METHODS["mine"] = namespace["mine"]
    Path("configs/mine.py").write_text(file)
    c = config.load("configs/mine.py")
    c.update_from_flattened_dict({"model.group": "mlp", "data.clients": 4, "rounds": 2})
    summary = jaxproto.run(c, "runs/mine")
    assert summary["status"] == "finished" and summary["bytes_per_round"]["up"] > 0


def test_every_tutorial_is_on_the_list_of_tutorials():
    listed = (DOCS / "tutorials" / "index.md").read_text()
    assert {p.name for p in TUTORIALS} == set(re.findall(r"\((\w+\.md)\)", listed))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_exist(page, monkeypatch):
    """The files, presets and fields that they name, too."""
    monkeypatch.chdir(ROOT)
    for name, arguments in commands(page):
        assert name in cli.COMMANDS
        configured = any(word.startswith("--config") for word in arguments)
        if configured and not any(MADE.search(word) for word in arguments):
            config.check_flags(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_links_to_in_the_repository_is_there(page):
    prose = FENCE.sub("", page.read_text())  # f["x"](y) is no link
    targets = re.findall(r"\]\(([^)\s#]+)", prose)
    for target in targets:
        if in_repository := URL.match(target):
            assert (ROOT / in_repository[1]).exists(), target
        elif "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    ("module", "examples"),
    [("method", 7), pytest.param("sweeps.sweep", 6, marks=pytest.mark.long)],
)
def test_the_example_of_a_docstring_runs(elsewhere, module, examples):
    """Of `Method` and `sweep`; `quiet` is a console that shows nothing."""
    given = {"quiet": Console(quiet=True)}
    there = importlib.import_module(f"jaxproto.{module}")
    found = doctest.testmod(there, extraglobs=given)
    assert found.attempted >= examples and not found.failed
