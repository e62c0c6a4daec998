"""Imports go one way: a module uses the layers above its own in docs/mechanism.md."""

import ast
import functools
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jaxproto"
PAGE = (PACKAGE.parent / "docs/mechanism.md").read_text()
ROWS = re.findall(r"^\| (`.*?) \|", PAGE.partition("## Import rules")[2], re.MULTILINE)
LAYERS = [re.findall(r"`(\w+)`", row) for row in ROWS]  # of the page's table
HEIGHT = {name: i for i, layer in enumerate(LAYERS) for name in layer}


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def imported(file: Path) -> set[str]:
    """Packages, and modules of the root, that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(parsed(file)):
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


def test_no_import_runs_upwards():
    """Every module has its layer in docs/mechanism.md, and uses those above."""
    outside = {PACKAGE / "__init__.py", PACKAGE / "__main__.py"}
    files = sorted({*PACKAGE.rglob("*.py")} - outside)
    assert {room(file) for file in files} == {*HEIGHT}
    upwards = {
        (str(file), name)
        for file in files
        for name in imported(file) - {room(file)}
        if HEIGHT[name] >= HEIGHT[room(file)]
    }
    assert not upwards, sorted(upwards)


def dotted(file: Path, package: Path) -> str:
    parts = file.relative_to(package).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__") or "__init__"


def edges_inside(package: Path) -> dict[str, set[str]]:
    """Module -> modules of the same package that it imports while it is loaded."""
    prefix, found = f"jaxproto.{package.name}", {}
    modules = {dotted(file, package): file for file in package.rglob("*.py")}
    for name, file in modules.items():
        uses = set()
        for node in parsed(file).body:
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.startswith(prefix):
                base = module[len(prefix) + 1 :]
                for alias in node.names:
                    inside = f"{base}.{alias.name}".lstrip(".")
                    uses |= {inside if inside in modules else base}
        found[name] = uses - {name, ""}
    return found


def test_no_circle_within_a_package():
    for name in (n for n in HEIGHT if (PACKAGE / n).is_dir()):
        left = edges_inside(PACKAGE / name)
        while free := [k for k, v in left.items() if not v & set(left)]:
            left = {k: v for k, v in left.items() if k not in free}
        assert not left, f"{name}: a circle among {sorted(left)}"


def test_only_the_edges_touch_the_clock_or_the_disk():
    mechanism = {f"{name}.py" for name in HEIGHT if name != "cli"}
    files = [f for f in PACKAGE.glob("*.py") if f.name in mechanism]
    for file in (*files, *(PACKAGE / "wire").glob("*.py")):
        text = file.read_text()
        assert "import time" not in text, file
        assert file.parent != PACKAGE or "open(" not in text, file
