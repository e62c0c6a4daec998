"""The notebooks of `colab/`: they run, hold their outputs, and install alike."""

import importlib.util
import os
import re
import shlex
from pathlib import Path
from unittest import mock

import jax
import jaxlib
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from support.every import check_every

from colab import execute

NAMES = sorted(path.stem for path in execute.FOLDER.glob("*.ipynb"))
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


def test_the_cell_that_installs_is_the_same_everywhere():
    assert len({install_cell(name) for name in NAMES}) == 1


def test_the_cell_installs_a_wheel_a_folder_or_an_address(monkeypatch):
    """And nothing else of that name; it keeps the jax that is there."""
    called, real = [], importlib.util.find_spec

    def missing(name, *rest):
        return None if name == "jaxproto" else real(name, *rest)

    def install(source):
        cell, changed = execute.SOURCE.subn(
            f'SOURCE = "{source}"', install_cell(NAMES[0])
        )
        assert changed == 1
        shell, variables = mock.Mock(), {}
        code = TransformerManager().transform_cell(cell)
        exec(code, variables | {"get_ipython": lambda: shell}, variables)
        for magic, line in (call.args for call in shell.run_line_magic.mock_calls):
            assert magic == "pip" and os.environ["GIT_TERMINAL_PROMPT"] == "0"
            called.append(shlex.split(line.format_map(variables)))

    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "")
    install("anywhere")
    assert called == []
    monkeypatch.setattr(importlib.util, "find_spec", missing)
    kept = [f"jax=={jax.__version__}", f"jaxlib=={jaxlib.__version__}"]
    here = Path.cwd().as_uri()
    for source, address in (
        ("jaxproto-0.1.0-py3-none-any.whl", f"{here}/jaxproto-0.1.0-py3-none-any.whl"),
        ("jaxproto", f"{here}/jaxproto"),  # never a name that pip would look up
        ("/drive/checkout", "file:///drive/checkout"),
        ("git+https://a/b", "git+https://a/b"),
    ):
        install(source)
        wanted = ["install", "-q", f"jaxproto[plots] @ {address}", *kept]
        assert called.pop() == wanted
