"""The notebooks of `colab/`: they run, hold their outputs, and agree on the address."""

import importlib.util
import re
import subprocess
import tomllib

import jax
import pytest
from support.every import check_every
from support.runs import ROOT

from colab import execute

NAMES = sorted(path.stem for path in execute.FOLDER.glob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COLAB = r"colab\.research\.google\.com/github/"
BADGE = re.compile(COLAB + r"([\w-]+/[\w-]+)/blob/main/(\S*?)\)")
MACHINE = re.compile(r"/(?:work|tmp|home|root|users|private)/")
MOST = 2**20  # bytes of a notebook, outputs and all
SHOWN = {  # in the small version too: pictures, and words of tables and lines
    "heterogeneous": (3, "fedproto", "resuming runs/protonorm after round"),
    "jaxproto_tour": (4, "protonorm", "fedproto", "slow_fedproto"),
    "own_method": (0, "did you mean 'lam'?", "angle_proto", "clipped_proto"),
    "sweep": (2, "method.upscale", "cells before"),
}


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code(notebook) for output in cell.outputs]


def texts(notebook):
    """All that its outputs say, pictures aside, in small letters."""
    kinds = ("text/markdown", "text/plain", "text/html")
    shown = [o.get("data", {}).get(k, "") for o in outputs(notebook) for k in kinds]
    said = [o.get("text", "") for o in outputs(notebook)]
    return "\n".join([*shown, *said]).lower()


def shows_what_it_must(name, notebook):
    shown = [o for o in outputs(notebook) if "image/png" in o.get("data", {})]
    pictures, *said = SHOWN[name]
    assert len(shown) == pictures
    assert [s for s in said if s not in texts(notebook)] == []


def install_cell(name):
    return code(execute.read(name))[0].source


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_in_its_small_version(name, tmp_path):
    notebook = execute.read(name)
    execute.execute(notebook, tmp_path, "small")
    shows_what_it_must(name, notebook)
    assert "small version" in texts(notebook)


def test_a_notebook_holds_the_outputs_of_its_cells():
    """After a change of a cell: python -m colab.execute NAME."""

    def check(name):
        notebook = execute.read(name)
        stored = notebook.metadata["jaxproto"]
        assert stored["digest"] == execute.digest(notebook)
        assert stored["version"] == execute.STORED[name]
        assert f"{stored['version']} version" in texts(notebook)
        first = " ".join(notebook.cells[0].source.split())
        assert f"of the {stored['version']} version" in first
        shows_what_it_must(name, notebook)
        kinds = {o.output_type for o in outputs(notebook)}
        streams = {o.get("name", "stdout") for o in outputs(notebook)}
        assert "error" not in kinds and streams <= {"stdout"}
        assert not MACHINE.search(texts(notebook))
        assert (execute.FOLDER / f"{name}.ipynb").stat().st_size < MOST

    assert list(execute.STORED) == NAMES == sorted(SHOWN)
    check_every(NAMES, check)


def test_cell_that_installs_and_address_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    url = project["urls"]["Repository"]
    place = url.removeprefix("https://github.com/")
    assert len({install_cell(name) for name in NAMES}) == 1
    for file, words in (
        ("docs/how_to/notebook.md", f"git+{url}"),
        ("mkdocs.yml", f"repo_url: {url}\n"),
        ("CITATION.cff", f"repository-code: {url}\n"),
    ):
        assert words in (ROOT / file).read_text(), file
    assert f'ADDRESS = "git+{url}"' in install_cell(NAMES[0])
    for name in NAMES:
        first = execute.read(name).cells[0].source
        assert BADGE.findall(first) == [(place, f"colab/{name}.ipynb")]
    found = {pair for page in PAGES for pair in BADGE.findall(page.read_text())}
    assert found and {named for named, _ in found} == {place}
    assert all((ROOT / file).is_file() for _, file in found)


def test_the_cell_installs_from_an_address_or_a_folder_or_says_why_not(monkeypatch):
    """And keeps the jax that is there."""
    called, real, status = [], importlib.util.find_spec, 0

    def run(command, **rest):
        called.append(command)
        assert rest["env"]["GIT_TERMINAL_PROMPT"] == "0"
        return subprocess.CompletedProcess(command, status, "", "")

    def missing(name, *rest):
        return None if name == "jaxproto" else real(name, *rest)

    def install(address):
        line, cell = r'^ADDRESS = "[^"]*"', install_cell(NAMES[0])
        cell, changed = re.subn(line, f"ADDRESS = {address!r}", cell, flags=re.M)
        assert changed == 1
        exec(cell, {})

    monkeypatch.setattr(importlib.util, "find_spec", missing)
    monkeypatch.setattr(subprocess, "run", run)
    for address, asked in (
        ("/drive/clone", "/drive/clone[plots]"),
        ("git+https://a/b", "jaxproto[plots] @ git+https://a/b"),
    ):
        install(address)
        assert asked in called[-1] and f"jax=={jax.__version__}" in called[-1]
    assert len(called) == 2
    status = 1
    with pytest.raises(SystemExit, match=r"installed from git\+https://a/b: pip says"):
        install("git+https://a/b")
