"""The notebooks of `colab/`: they run, hold their outputs, and agree on the address."""

import importlib.util
import re
import resource
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import jax
import pytest
from support.every import check_every

from colab import execute

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in execute.FOLDER.glob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BADGE = re.compile(
    r"colab\.research\.google\.com/github/([\w-]+/[\w-]+)/blob/main/(\S*?)\)"
)
MACHINE = re.compile(r"/(?:work|tmp|home|root|users|private)/")
MOST = 2**20  # bytes of a notebook, outputs and all
MINUTE = 2 * 60.0  # in seconds of two cores, which do not depend on who else is busy


class Shown(NamedTuple):
    """What a notebook must show, in its small version too."""

    pictures: int
    said: tuple[str, ...]  # in its tables and lines


SHOWN = {
    "heterogeneous": Shown(
        3, ("fedproto", "protonorm", "resuming runs/protonorm after round 2")
    ),
    "jaxproto_tour": Shown(4, ("protonorm", "fedproto", "slow_fedproto")),
    "own_method": Shown(
        0, ("did you mean 'lam'?", "angle_proto", "clipped_proto", "shared_head")
    ),
    "sweep": Shown(2, ("method.upscale", "cells before")),
}


def outputs(notebook):
    return [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]


def texts(notebook):
    """All that its outputs say, pictures aside, in small letters."""
    kinds = ("text/markdown", "text/plain", "text/html")
    shown = [o.get("data", {}).get(k, "") for o in outputs(notebook) for k in kinds]
    said = [o.get("text", "") for o in outputs(notebook)]
    return "\n".join([*shown, *said]).lower()


def shows_what_it_must(name, notebook):
    shown = [o for o in outputs(notebook) if "image/png" in o.get("data", {})]
    assert len(shown) == SHOWN[name].pictures
    assert [s for s in SHOWN[name].said if s not in texts(notebook)] == []


def cpu_seconds():
    """Of the processes that have ended, kernels among them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def install_cell(name):
    cells = [c.source for c in execute.read(name).cells if c.cell_type == "code"]
    return cells[0]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_in_its_small_version(name, tmp_path):
    notebook, before = execute.read(name), cpu_seconds()
    execute.execute(notebook, tmp_path, "small")
    assert cpu_seconds() - before < MINUTE
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
        streams = {o.name for o in outputs(notebook) if o.output_type == "stream"}
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
    assert f'ADDRESS = "git+{url}"' in install_cell(NAMES[0])
    assert f"git+{url}" in (ROOT / "docs/how_to/notebook.md").read_text()
    assert f"repo_url: {url}\n" in (ROOT / "mkdocs.yml").read_text()
    assert f"repository-code: {url}\n" in (ROOT / "CITATION.cff").read_text()
    firsts = {name: execute.read(name).cells[0].source for name in NAMES}
    found = [pair for page in PAGES for pair in BADGE.findall(page.read_text())]
    assert found
    for name, first in firsts.items():
        assert BADGE.findall(first) == [(place, f"colab/{name}.ipynb")]
    for named, file in found:
        assert named == place and (ROOT / file).is_file()


def run_install(address, monkeypatch):
    """The cell that installs, as where the package is not, from another address."""
    real = importlib.util.find_spec

    def missing(name, *rest):
        return None if name == "jaxproto" else real(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", missing)
    line, cell = r'^ADDRESS = "[^"]*"', install_cell(NAMES[0])
    cell, changed = re.subn(line, f"ADDRESS = {address!r}", cell, flags=re.M)
    assert changed == 1
    exec(cell, {})


@pytest.mark.long
def test_an_address_that_cannot_be_reached_is_told_with_the_way_out(monkeypatch):
    """By the real pip and git; the discard port of this machine answers nobody."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    address = "git+http://127.0.0.1:9/nobody/jaxproto"
    with pytest.raises(SystemExit) as told:
        run_install(address, monkeypatch)
    text = str(told.value)
    assert f"not installed from {address}: pip says why above" in text
    assert "unable to access 'http://127.0.0.1:9/nobody/jaxproto" in text
    assert "set ADDRESS to its folder" in text


def test_the_cell_installs_from_an_address_or_a_folder(monkeypatch):
    """And keeps the jax that is there."""
    called = []

    def run(command, **rest):
        called.append(command)
        assert rest["env"]["GIT_TERMINAL_PROMPT"] == "0"
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    for address, asked in (
        ("/drive/clone", "/drive/clone[plots]"),
        ("git+https://a/b", "jaxproto[plots] @ git+https://a/b"),
    ):
        run_install(address, monkeypatch)
        assert asked in called[-1] and f"jax=={jax.__version__}" in called[-1]
    assert len(called) == 2
