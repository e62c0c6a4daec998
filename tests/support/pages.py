"""Pages of the documentation: their code, and a folder to run it in."""

import contextlib
import re
import shutil
from pathlib import Path
from unittest import mock

import pytest

from jaxproto.callbacks import WRITERS
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.models import NETS
from jaxproto.round import participation
from support import quick
from support.runs import ROOT

DOCS = ROOT / "docs"
TUTORIALS = [p for p in sorted((DOCS / "tutorials").glob("*.md")) if p.stem != "index"]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Fenced blocks of a language, each with the line on which its text begins."""
    text = page.read_text()
    return [
        (text[: found.start(2)].count("\n"), found[2])
        for found in FENCE.finditer(text)
        if found[1] == language
    ]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder with `configs/`, for quick runs; registries are restored afterwards."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    with contextlib.ExitStack() as stack:
        for registry in (METHODS, NETS, METRICS, participation.SAMPLERS, WRITERS):
            stack.enter_context(mock.patch.dict(registry._entries))
        stack.enter_context(quick.quickly())
        yield tmp_path
