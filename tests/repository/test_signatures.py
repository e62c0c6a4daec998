"""Calls say what they give: few arguments by position, no anonymous tuple of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jaxproto"
MOST = 6  # arguments by position, `self` not counted
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def by_position(function: Function) -> int:
    """How many arguments a function takes by position."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def faults(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and (count := by_position(node)) > MOST:
            yield f"line {node.lineno}: {count} arguments by position"
        elif isinstance(node, ast.Call):
            stars = [a.value for a in node.args if isinstance(a, ast.Starred)]
            if any(isinstance(a, ast.Name) and a.id == "given" for a in stars):
                yield f"line {node.lineno}: *given"


def test_arguments_are_few_or_have_names():
    files = {f.relative_to(PACKAGE).as_posix(): f for f in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(file.read_text()) for path, file in files.items()}
    found = {path: told for path, tree in trees.items() if (told := [*faults(tree)])}
    assert not found, found


def test_both_faults_are_seen():
    several = "a, b, c, d, e, f"
    assert not [*faults(ast.parse(f"def f(self, {several}, *, g): ..."))]
    assert not [*faults(ast.parse(f"start({several}, *rest, **given)"))]
    for code in (f"def f({several}, g): ...", "start(*given, last)"):
        assert len([*faults(ast.parse(code))]) == 1, code
