"""Pages of the documentation: their code, and a folder to run it in."""

import re
import shutil
from pathlib import Path

import jax
import pytest

from jaxproto import participation, plots
from jaxproto.callbacks import WRITERS
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.models import NETS

ROOT = Path(__file__).parents[2]
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
    """A folder with `configs/`; no pictures, programs made quickly.

    Afterwards the registries are as they were.
    """
    registries = METHODS, NETS, METRICS, participation.SAMPLERS, WRITERS
    before = [dict(registry) for registry in registries]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plots, "available", lambda: False)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    jax.config.update("jax_disable_most_optimizations", True)
    yield tmp_path
    jax.config.update("jax_disable_most_optimizations", False)
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)
