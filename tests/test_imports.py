"""Imports go one way (design section 2)."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "jaxproto"
SPINE = [
    "types",
    "errors",
    "batches",
    "kernels",
    "losses",
    "transforms",
    "method",
    "wire",
]
LOOP = ["client", "federation", "programs", "rounds", "runner"]
EDGES = ["checkpoint", "metrics", "progress", "plots", "pictures", "report", "workdir"]
CONFIGURED = ["config", "options", "presets", "build"]


def imported(file: Path) -> set[str]:
    """Top-level modules of jaxproto that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "jaxproto":
                names |= {a.name for a in node.names} if len(parts) == 1 else {parts[1]}
    return names


def test_methods_import_neither_the_loop_nor_the_edges():
    for file in (PACKAGE / "methods").glob("*.py"):
        assert not imported(file) & {*LOOP, *EDGES, *CONFIGURED}, file.name


def test_the_spine_imports_nothing_above_it():
    for name in SPINE:
        above = {*LOOP, *EDGES, *CONFIGURED, "methods", "models", "data"}
        assert not imported(PACKAGE / f"{name}.py") & above, name


def test_the_loop_imports_no_method_no_config_and_no_edge():
    for name in ("client", "federation", "participation"):
        beside = {*EDGES, *CONFIGURED, "methods", "models", "data", "runner"}
        assert not imported(PACKAGE / f"{name}.py") & beside, name


def test_only_the_edges_touch_the_clock_or_the_disk():
    for name in [*SPINE, "client", "federation", "participation", "comm", "codec"]:
        text = (PACKAGE / f"{name}.py").read_text()
        assert "import time" not in text and "open(" not in text, name
