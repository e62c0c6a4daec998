"""General packages name no method: what they need of one is a field of `Method`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from jaxproto.config import registries
from jaxproto.experiment import display_names
from jaxproto.methods import METHODS

PACKAGE = Path(__file__).parents[2] / "jaxproto"
OF_PAPERS = {  # their tables and settings: the rows are methods
    *(
        "reporting/compare/paper_cells.py",
        "reporting/compare/paper_rules.py",
        "reporting/compare/paper_tables.py",
    ),
    *(
        "reporting/compare/paper_numbers.py",
        "config/presets.py",
        "config/paper_variants.py",
    ),
    "cli/new.py",  # a template for a method of the user
}
COMMON = {"local"}  # is a section of configurations and a launcher of sweeps as well
SHARED = {  # fields of methods that decide what is beside the method
    "config/checks.py": {"anchors"},  # which data it needs
    "experiment/sampler.py": {"fraction"},  # how many rows a round has
    "reporting/figures/derived.py": {"alignment"},  # the picture of an alignment
    "reporting/figures/from_formulas.py": {"masks"},  # the curves of a formula of costs
}
NAMES = {*METHODS} - COMMON
TITLES = {display_names.display_name({"method.name": name}) for name in NAMES}
FIELDS = {k for f in METHODS.values() for k in registries.arguments(f)}


def docstrings(tree: ast.AST) -> set[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners)]
    return {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}


def of_method(node: ast.AST) -> bool:
    """Whether an expression ends in `.method`, as `config.method` does."""
    return isinstance(node, ast.Attribute) and node.attr == "method"


def named(tree: ast.AST) -> Iterator[str]:
    """Methods that the code names in a string or imports."""
    outside = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = {node.value, *re.split(r"[,\s]+", node.value)}
            if node not in outside:
                yield from words & NAMES | {node.value} & TITLES
        elif isinstance(node, ast.ImportFrom | ast.Import):
            module = f"{getattr(node, 'module', '')}."
            names = (f"{module}{alias.name}" for alias in node.names)
            parts = (name.lstrip(".").split(".") for name in names)
            yield from (p[2] for p in parts if p[1:2] == ["methods"] and p[2] in NAMES)


def read(tree: ast.AST) -> Iterator[str]:
    """Hyper-parameters of methods that the code reads of a configuration."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and of_method(node.value):
            yield from {node.attr} & FIELDS
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            got = node.func.attr == "get" and of_method(node.func.value)
            key = node.args[0] if got else None
            yield from {getattr(key, "value", "")} & FIELDS
        elif isinstance(node, ast.Compare) and of_method(node.comparators[-1]):
            yield from {getattr(node.left, "value", "")} & FIELDS


def general() -> Iterator[tuple[str, ast.AST]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        if not path.startswith("methods/"):
            yield path, ast.parse(file.read_text())


def test_general_packages_name_no_method():
    naming = {path: names for path, tree in general() if (names := {*named(tree)})}
    assert {*naming} == OF_PAPERS, naming


def test_general_packages_read_no_field_of_a_single_method():
    found = {path: {*read(tree)} for path, tree in general()}
    left = {k: v for k, v in found.items() if v and k not in OF_PAPERS}
    assert left == SHARED


def test_every_way_to_name_a_method_is_seen():
    for code in (
        "NAMES = ['fedproto']",
        "SHOWN = 'fedavg,fedproto'",
        "title = 'FedProto'",
        "from jaxproto.methods import fedproto",
        "from jaxproto.methods.fedproto import Pull",
        "import jaxproto.methods.fedproto",
    ):
        assert {*named(ast.parse(code))} & {"fedproto", "FedProto"}, code
    for code in (
        "run.config.method.upscale",
        "run.config.method.get('upscale', 1.0)",
        "'upscale' in config.method",
    ):
        assert {*read(ast.parse(code))} == {"upscale"}, code
    assert not {*named(ast.parse("'''Of fedproto.'''"))}
