"""The pages: commands have real flags, links lead somewhere, examples run."""

import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest
from rich.console import Console
from support import pages
from support.every import check_every
from support.fields import changed
from support.pages import DOCS, FENCE, ROOT, blocks

from jaxproto import cli, config
from jaxproto.config import fields
from jaxproto.experiment import traced
from jaxproto.methods import METHODS

OUTSIDE = ("README", "CHANGELOG", "CONTRIBUTING", "benchmarks/README", "results/README")
PAGES = [*(ROOT / f"{name}.md" for name in OUTSIDE), *sorted(DOCS.rglob("*.md"))]
GENERATED = (DOCS / "generate_pages.py").read_text()  # names the pages that it makes
MADE = re.compile(r"configs/(mine|\$method)\.py")  # by the reader, or by a loop

elsewhere = pages.elsewhere


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Command of the package and its arguments, of every command line on a page."""
    text = "".join(code for kind in ("", "bash") for _, code in blocks(page, kind))
    lines = re.findall(r"(?:main\.py|-m jaxproto)\b[^\n|&]*", text)
    words = [shlex.split(line, comments=True) for line in lines]
    return [("run", w[1:]) if w[0] == "main.py" else (w[2], w[3:]) for w in words]


def test_the_commands_of_pages_exist(monkeypatch):
    """The files, presets and fields that they name, too."""
    monkeypatch.chdir(ROOT)

    def check(_, name, arguments):
        assert name in cli.COMMANDS
        configured = any(word.startswith("--config") for word in arguments)
        if configured and not any(MADE.search(word) for word in arguments):
            config.check_flags(arguments)

    check_every([(page, *told) for page in PAGES for told in commands(page)], check)


def test_what_pages_link_to_in_the_repository_is_there():
    missing = []
    for page in PAGES:
        prose = FENCE.sub("", page.read_text())  # f["x"](y) is no link
        for target in re.findall(r"\]\(([^)\s#]+)", prose):
            ours = "://" not in target and f'"{target}"' not in GENERATED
            if ours and not (page.parent / target).exists():
                missing.append((page.name, target))
    assert missing == []


def test_every_decision_that_is_cited_is_there_once():
    page = (DOCS / "decisions.md").read_text()
    anchors = re.findall(r"^#{2,4} .*\{#([\w-]+)\}$", page, re.MULTILINE)
    assert len(anchors) == len({*anchors}) > 0
    cited = {("decisions.md", a) for a in re.findall(r"\]\(#([\w-]+)\)", page)}
    rooms = ("benchmarks", "colab", "configs", "docs", "jaxproto", "results", "tests")
    files = [*ROOT.iterdir(), *(f for room in rooms for f in (ROOT / room).rglob("*"))]
    for file in files:
        if file.suffix in (".py", ".md", ".ipynb") and file != Path(__file__):
            named = re.findall(r"decisions\.md#([\w-]*)", file.read_text())
            cited |= {(file.name, anchor) for anchor in named}
    assert [pair for pair in sorted(cited) if pair[1] not in anchors] == []


@pytest.mark.parametrize(
    ("module", "examples"),
    [
        ("core.method", 7),
        ("round.simulator", 8),
        pytest.param("lab.sweeps.sweep", 6, marks=pytest.mark.long),
    ],
)
def test_the_example_of_a_docstring_runs(elsewhere, module, examples):
    """Runs it in a folder; `quiet` is a console that shows nothing."""
    given = {"quiet": Console(quiet=True)}
    there = importlib.import_module(f"jaxproto.{module}")
    found = doctest.testmod(there, extraglobs=given)
    assert found.attempted >= examples and not found.failed


# ---------------------------------------- which floats are arguments of programs


def check_page(name, table):
    there = (DOCS / "api" / name).read_text().partition("| field |")
    assert "".join(there[1:]) == table, f"put this at the end of {name}:\n\n{table}"


OTHER = {0.5: 0.25}  # than a field has
KINDS = {(True, True): "argument", (False, True): "argument, but 0"}
KINDS[False, False] = "static"


def kinds(method):
    """Field -> argument, "argument, but 0" or static, of every float of a method."""
    c, found = config.default_config(), {}
    c.method.update(config.method_fields(method))
    c.privacy.unit = "client"
    c.attack.kind, c.robust.aggregate = "scale", "median"
    c.time.devices = "lognormal"
    unused = fields.fields_where(program=fields.UNUSED)
    for path, value in config.flatten(c).items():
        if type(value) is float and path not in unused:
            copy = c.copy_and_resolve_references()
            both = c, changed(copy, {path: OTHER.get(value, 0.5)})
            found[path] = KINDS[tuple(path in traced.traced_floats(x) for x in both)]
    return found


def table(of):
    """A line for each field of methods and kind, with the methods that have it."""
    rows = sorted({pair for found in of.values() for pair in found.items()})
    rows = [pair for pair in rows if pair[0] not in fields.FIELDS]
    lines = ["| field | is | of |", "|---|---|---|"]
    for field, kind in rows:
        having = [f"`{m}`" for m in METHODS if of[m].get(field) == kind]
        lines.append(f"| `{field}` | {kind} | {', '.join(having)} |")
    return "\n".join(lines) + "\n"


def test_the_page_of_fields_and_programs_is_what_the_code_does():
    of = {method: kinds(method) for method in METHODS}
    check_page("programs.md", table(of))
    settings = traced.program_settings(config.experiment("fedproto", "digits"))
    assert not (fields.fields_where(program=fields.UNUSED) | {"rounds"}) & {*settings}
    assert "rounds" in traced.program_settings(config.experiment("fedkd", "digits"))


# ------------------------------------------------------ the table of fields

MOST = 8  # names that the page shows; of more the first three


def table_of_fields():
    """A line for each field that all methods share."""
    head = "field", "default", "is", "may be", "in programs", "in a folder's name"
    rows, found = [(*head, "compared", "may change"), ("---",) * 8], kinds("local")
    for path, field in fields.FIELDS.items():
        program = found.get(path, field.program)
        assert program.startswith(field.program), path
        names = field.words.split(" | ")
        words = ", ".join(names if len(names) <= MOST else [*names[:3], "..."])
        rules = program, field.names_run, field.compared, field.resume
        said = [{True: "yes", False: "no"}.get(rule, rule) for rule in rules]
        default = f"`{field.default if field.default != '' else repr('')}`"
        rows.append((f"`{path}`", default, field.help, words, *said))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_page_of_fields_is_the_table_of_fields():
    check_page("fields.md", table_of_fields())
