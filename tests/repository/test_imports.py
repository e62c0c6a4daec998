"""Imports go one way: a package uses those of the lines above its own."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "jaxproto"
LINES = (  # of the root's modules: the mechanism
    "types errors",
    "kernels",
    "losses transforms metrics",
    "wire",
    "masks batches method",
    "client participation execution",
    "rows reads devices",
    "federation",
    "fit",
    "nn",
    "models",
    "privacy",
    "methods",
    "data",
    "config",
    "storage",
    "plots",
    "report",
    "writers",
    "training",
    "flower",
    "compare",
    "saved",
    "leakage",
    "figures",
    "page",
    "sweeps",
    "cli",
)
HEIGHT = {name: i for i, line in enumerate(LINES) for name in line.split()}
FILES = sorted(file for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE)
FILES += [
    PACKAGE / f"{name}.py" for name in HEIGHT if (PACKAGE / f"{name}.py").exists()
]


def imported(file: Path) -> set[str]:
    """Packages, and modules of the root, that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{a.name}" for a in node.names]
        else:
            continue
        parts = (name.split(".") for name in modules)
        names |= {p[1] for p in parts if p[0] == "jaxproto" and len(p) > 1}
    return names


def room(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def test_every_module_has_its_line():
    there = {room(file) for file in PACKAGE.rglob("*.py")} - {"__init__", "__main__"}
    assert there == set(HEIGHT)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_no_import_runs_upwards(file):
    own = room(file)
    above = {n for n in imported(file) - {own} if HEIGHT[n] >= HEIGHT[own]}
    assert not above, f"{own} imports {above}"


def edges_inside(package: Path) -> dict[str, set[str]]:
    """Module -> modules of the same package that it imports while it is loaded."""
    prefix, found = f"jaxproto.{package.name}", {}
    for file in package.rglob("*.py"):
        relative = file.relative_to(package).with_suffix("")
        name = ".".join(p for p in relative.parts if p != "__init__") or "__init__"
        uses = set()
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                prefix
            ):
                base = node.module[len(prefix) + 1 :]
                for a in node.names:
                    uses.add(f"{base}.{a.name}" if base else a.name)
                    uses.add(base)
        found[name] = uses - {name, ""}
    return {k: v & set(found) for k, v in found.items()}


@pytest.mark.parametrize("name", sorted(n for n in HEIGHT if (PACKAGE / n).is_dir()))
def test_no_circle_within_a_package(name):
    left = edges_inside(PACKAGE / name)
    while free := [k for k, v in left.items() if not v & set(left)]:
        left = {k: v for k, v in left.items() if k not in free}
    assert not left, f"a circle among {sorted(left)}"


def test_only_the_edges_touch_the_clock_or_the_disk():
    mechanism = [n for n in HEIGHT if (PACKAGE / f"{n}.py").exists() and n != "cli"]
    for name in mechanism:
        text = (PACKAGE / f"{name}.py").read_text()
        assert "import time" not in text and "open(" not in text, name
    for file in (PACKAGE / "wire").glob("*.py"):
        assert "import time" not in file.read_text(), file.name
