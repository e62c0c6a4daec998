"""What the text cites is here: docs/decisions.md, and no document outside."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "decisions.md"
ROOMS = ("benchmarks", "colab", "configs", "docs", "jaxproto", "results", "tests")
KINDS = (".py", ".md", ".ipynb")
FILES = [*ROOT.iterdir(), *(f for room in ROOMS for f in (ROOT / room).rglob("*"))]
TEXTS = {
    str(file.relative_to(ROOT)): file.read_text()
    for file in sorted(FILES)
    if file.suffix in KINDS and file != Path(__file__)
}
OUTSIDE = {  # what a citation of a document that is not here looks like
    "specification": r"(?i)\bspec(ification)?s? (sheet|(section )?H?\d)",
    "design": r"(?i)\bdesign (section )?\d",
    "decision": r"(?<![\w.#/+-])[DH](?!0)\d{1,2}(?![\w.%])",  # D2, H5
}
ANCHOR = re.compile(r"^#{2,4} .*\{#([\w-]+)\}$", re.MULTILINE)
FIELDS = ("Paper", "Released code", "Here", "Why")


def lines(what: str, text: str) -> list[str]:
    """Lines that cite such a document, and their numbers."""
    numbered = enumerate(text.splitlines(), 1)
    return [f"{n}: {line}" for n, line in numbered if re.search(OUTSIDE[what], line)]


@pytest.mark.parametrize("what", OUTSIDE)
def test_no_document_outside_is_cited(what):
    found = {name: lines(what, text) for name, text in TEXTS.items()}
    assert {name: cited for name, cited in found.items() if cited} == {}


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("specification", "as released (spec 2.3 item 5)."),
        ("specification", "Specification 4.1: in one folder"),
        ("specification", "left out altogether: spec H4.)"),
        ("design", "were set (design section 4: 1,226)"),
        ("decision", "one of `losses` (D2)."),
        ("decision", "the released code's loss, D3, D13"),
        ("decision", "near their own size (H5)."),
    ],
)
def test_a_citation_is_recognised(what, line):
    assert lines(what, line)


@pytest.mark.parametrize(
    "line",
    ["features in 2D", "Spec(10, 500)", "c_CD = x_BD @ w_D2", "an H100", "spec.md D"],
)
def test_shapes_and_names_are_no_citations(line):
    assert not any(lines(what, line) for what in OUTSIDE)


def test_every_anchor_that_is_cited_is_there_once():
    page = PAGE.read_text()
    anchors = ANCHOR.findall(page)
    assert len(anchors) == len(set(anchors)) > 0
    cited = [("docs/decisions.md", a) for a in re.findall(r"\]\(#([\w-]+)\)", page)]
    for name, text in TEXTS.items():
        cited += [(name, a) for a in re.findall(r"decisions\.md#([\w-]*)", text)]
    assert [(name, anchor) for name, anchor in cited if anchor not in anchors] == []


def test_every_decision_says_paper_code_default_and_reason():
    for entry in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        fields = tuple(re.findall(r"^- \*\*(.+?):\*\*", entry, re.MULTILINE))
        assert fields == FIELDS, entry.splitlines()[0]
