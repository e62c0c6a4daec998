"""docs/other_libraries.md: every cell says where it was seen."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "other_libraries.md").read_text()
COLUMNS = "| | jaxproto | HtFLlib | PFLlib | fluke | FedJAX | pfl-research | Flower |"
DEFINED = dict(re.findall(r"^\[(\w+)\]: (\S+)$", TEXT, re.MULTILINE))
USED = re.findall(r"\]\[(\w+)\]", TEXT)
TABLES = re.findall(r"^\| \| jaxproto .*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
ROWS = [
    line.strip("| ").split(" | ") for table in TABLES for line in table.splitlines()
]
PLACE = re.compile(r"https://github\.com/[\w-]+/[\w-]+/(?:blob|tree)/([^/]+)")


def test_every_table_is_about_the_same_libraries():
    assert TEXT.count(COLUMNS) == len(TABLES) > 4 and len(ROWS) > 25
    assert [row[0] for row in ROWS if len(row) != 8] == []


def test_every_cell_links_to_its_source():
    source = re.compile(r"\]\[\w+\]|\]\([^)]+\)")
    without = [(r[0], cell) for r in ROWS for cell in r[1:] if not source.search(cell)]
    assert without == []


def test_every_source_is_defined_and_used():
    assert set(USED) == set(DEFINED)


def test_a_file_elsewhere_is_named_at_a_commit_or_release():
    found = {url: PLACE.match(url) for url in DEFINED.values() if "github.com" in url}
    fixed = re.compile(r"[0-9a-f]{40}|v\d[\d.]*")
    loose = [url for url, at in found.items() if not (at and fixed.fullmatch(at[1]))]
    assert found and loose == []


def test_what_was_not_found_says_what_was_looked_for():
    searches = TEXT.partition("## What was looked for")[2].partition("\n## ")[0]
    numbers = {int(n) for n in re.findall(r"^(\d+)\. `", searches, re.MULTILINE)}
    asked = {int(n) for n in re.findall(r"not found\]\[\w+\] \((\d+)\)", TEXT)}
    assert asked == numbers
    cells = [cell for row in ROWS for cell in row[1:] if "not found]" in cell]
    assert all(re.fullmatch(r".*not found\]\[\w+\] \(\d+\)", cell) for cell in cells)
