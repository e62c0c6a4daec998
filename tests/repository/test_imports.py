"""Imports go one way, and general packages name no method (docs/internals.md)."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jaxproto
from jaxproto.config import registries
from jaxproto.experiment import display_names
from jaxproto.methods import METHODS

PACKAGE = Path(__file__).parents[2] / "jaxproto"
PAGE = (PACKAGE.parent / "docs/internals.md").read_text()
IMPORT_RULES = PAGE.partition("## Import rules")[2]
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
(CONTRACT,) = PROJECT["tool"]["importlinter"]["contracts"]
LAYERS = [layer.split(" : ") for layer in CONTRACT["layers"]]  # the uppermost first
HEIGHT = {name: -i for i, layer in enumerate(LAYERS) for name in layer}


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def modules_of(node: ast.AST) -> list[list[str]]:
    """The dotted names that a node imports, in parts."""
    if isinstance(node, ast.Import):
        return [a.name.split(".") for a in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{a.name}".split(".") for a in node.names]
    return []


def dotted(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


def above(name: str) -> str:
    return name.rpartition(".")[0]


def room(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def test_the_page_has_the_folders_in_the_order_of_the_contract():
    rows = re.findall(r"^\| \w* ?\| (`.*?) \|", IMPORT_RULES, re.MULTILINE)
    names = re.findall(r"`(\w+)`", " ".join(rows))
    assert {*names} == {*HEIGHT} and len(names) == len(HEIGHT)
    heights = [HEIGHT[name] for name in names]
    assert heights == sorted(heights, reverse=heights[0] > heights[-1])


def test_no_import_runs_upwards_but_those_that_the_contract_lists():
    """As import-linter, which `.ci/run` calls; imports inside functions count."""
    outside = {PACKAGE / "__init__.py", PACKAGE / "__main__.py"}
    files = sorted({*PACKAGE.rglob("*.py")} - outside)
    assert {room(file) for file in files} == {*HEIGHT}
    upwards = {
        (module, ".".join(parts))
        for file in files
        for module in [dotted(file)]
        for node in ast.walk(parsed(file))
        for parts in modules_of(node)
        if parts[0] == "jaxproto"
        and parts[1:2]
        and HEIGHT[parts[1]] > HEIGHT[room(file)]
    }
    listed = {tuple(edge.split(" -> ")) for edge in CONTRACT.get("ignore_imports", [])}
    left = {
        (a, b) for a, b in upwards if not any((a, n) in listed for n in (b, above(b)))
    }
    assert not left, sorted(left)


def test_modules_import_each_other_in_no_circle():
    files = {f for f in PACKAGE.rglob("*.py") if f.stem != "__init__"}
    modules = {file.relative_to(PACKAGE.parent).with_suffix(""): file for file in files}
    uses = {}
    for module, file in modules.items():
        names = [n for node in parsed(file).body for n in modules_of(node)]
        uses[module] = {Path(*n[:size]) for n in names for size in (len(n), len(n) - 1)}
    used = {module: modules.keys() & imported for module, imported in uses.items()}
    graphlib.TopologicalSorter(used).prepare()  # raises CycleError, which names them


def test_only_the_edges_touch_the_clock_or_the_disk():
    for folder in ("core", "wire", "prototypes", "round", "wrappers", "devices"):
        for file in (PACKAGE / folder).glob("*.py"):
            text = file.read_text()
            assert "import time" not in text, file
            assert folder == "wire" or "open(" not in text, file


# ------------------------------------------------------------- general packages

PAPERS = ("cells", "rules", "tables", "numbers")  # whose rows are methods
OF_PAPERS = {f"papers/{name}.py" for name in PAPERS}
OF_PAPERS |= {"config/presets.py", "papers/variants.py"}
OF_PAPERS |= {"cli/new.py"}  # a template for a method of the user
SHARED = {  # fields of methods that decide what is beside the method
    "config/checks.py": {"anchors"},  # which data it needs
    "experiment/sampler.py": {"fraction"},  # how many rows a round has
    "lab/figures/derived.py": {"alignment"},  # the picture of an alignment
    "lab/figures/from_formulas.py": {"masks"},  # the curves of a formula of costs
}
NAMES = {*METHODS} - {"local"}  # a section of configurations, a launcher of sweeps
TITLES = {display_names.display_name({"method.name": name}) for name in NAMES}
FIELDS = {k for f in METHODS.values() for k in registries.arguments(f)}
READ = re.compile(
    r'(?<!--config)\.method(?:\.get\("|\.)(\w+)|"(\w+)" (?:not )?in [\w.]+\.method\b'
)


def named(tree: ast.AST) -> Iterator[str]:
    """Methods that the code names in a string, docstrings aside, or imports."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners)]
    docstrings = {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = {node.value, *re.split(r"[,\s]+", node.value)}
            if node not in docstrings:
                yield from words & NAMES | {node.value} & TITLES
        parts = (p for p in modules_of(node) if p[1:2] == ["methods"])
        yield from {p[2] for p in parts} & NAMES


def read(text: str) -> set[str]:
    """Hyper-parameters of methods that a file reads of a configuration."""
    return {field or asked for field, asked in READ.findall(text)} & FIELDS


def test_general_packages_name_no_method_and_read_no_field_of_a_single_one():
    paths = {f.relative_to(PACKAGE).as_posix(): f for f in PACKAGE.rglob("*.py")}
    general = {k: parsed(f) for k, f in paths.items() if k[:8] != "methods/"}
    naming = {
        path: names for path, tree in general.items() if (names := {*named(tree)})
    }
    assert {*naming} == OF_PAPERS, naming
    reading = {k: v for k in general if (v := read(paths[k].read_text()))}
    assert {k: v for k, v in reading.items() if k not in OF_PAPERS} == SHARED


def test_every_public_name_is_there_and_the_decorators_without_any_other_import():
    assert all(hasattr(jaxproto, name) for name in jaxproto.__all__)
    code = "import jaxproto; jaxproto.register.method"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)
