"""Runs the notebooks of this folder and keeps their outputs in them.

    python -m colab.execute                 # all of them
    python -m colab.execute sweep tour      # those with one of these in their names

Outputs are of the version that `STORED` names: the full one where two CPU cores are
enough for it. The tests run the small one of each (`JAXPROTO_SMALL`). What was executed
is remembered as a digest of the cells, so that outputs of other cells are noticed.
"""

import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).parent
STORED = {  # notebook -> version whose outputs it holds
    "heterogeneous": "small",
    "jaxproto_tour": "full",
    "own_method": "full",
    "sweep": "full",
}
SOURCE = re.compile(r'^SOURCE = "[^"]*"', re.MULTILINE)  # docs/addresses.py sets it
SECONDS = 1800  # that a cell may take


def read(name: str) -> nbformat.NotebookNode:
    """A notebook of this folder."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def digest(notebook: nbformat.NotebookNode) -> str:
    """Returns a hash of the code cells in their order, without the value of SOURCE."""
    code = [c.source for c in notebook.cells if c.cell_type == "code"]
    cells = [SOURCE.sub("SOURCE = ...", source) for source in code]
    return hashlib.sha256("\n\f".join(cells).encode()).hexdigest()


def execute(notebook: nbformat.NotebookNode, folder: Path, version: str):
    """Runs all cells, with the package of this clone; their outputs are in it then.

    Args:
      notebook: is changed.
      folder: where its cells run, and leave what they write.
      version: "small" or "full".
    """
    env = {k: v for k, v in os.environ.items() if k != "JAXPROTO_SMALL"}
    env |= {"JAXPROTO_SMALL": "1"} if version == "small" else {}
    env["PYTHONPATH"] = str(FOLDER.parent)
    where = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources=where,
        record_timing=False,
    )
    client.execute(env=env)


def store(name: str):
    """Executes a notebook and writes it with its outputs."""
    notebook, version = read(name), STORED[name]
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder), version)
    kept = {k: notebook.metadata[k] for k in ("colab", "kernelspec")}
    kept["language_info"] = {"name": "python"}
    kept["jaxproto"] = {"version": version, "digest": digest(notebook)}
    notebook.metadata = nbformat.from_dict(kept)
    nbformat.write(notebook, FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    asked = sys.argv[1:] or [""]
    for name in STORED:
        if any(word in name for word in asked):
            store(name)
