"""docs/status.md: a row for each method and network, and tests that exist."""

import inspect
import re
from pathlib import Path

from support.pages import DOCS, ROOT

from jaxproto.methods import METHODS
from jaxproto.models import NETS

PAGE = (DOCS / "status.md").read_text()
MAIN = "https://github.com/jaxproto/jaxproto/blob/main/"
ROW = re.compile(rf"^\| \[`(\w+)`\]\({MAIN}(\S+)\) \| \[", re.MULTILINE)


def rows(title):
    """Name and file of each row of a table."""
    return ROW.findall(PAGE.split(f"## {title}\n")[1].split("\n## ")[0])


def files(registry):
    """Name and file of each entry of a registry."""
    made_by = (getattr(make, "func", make) for make in registry.values())
    sources = (Path(inspect.getsourcefile(make)) for make in made_by)
    paths = (source.relative_to(ROOT).as_posix() for source in sources)
    return list(zip(registry, paths, strict=True))


def test_every_method_and_network_has_a_row_with_its_file_and_a_check():
    assert rows("Methods") == files(METHODS)
    assert rows("Networks") == files(NETS)


def test_every_linked_test_exists():
    linked = re.findall(rf"{MAIN}(tests/[\w/]+\.py)#(\w+)\)", PAGE)
    assert len(linked) > len(METHODS) + len(NETS)
    missing = [
        (file, name)
        for file, name in linked
        if f"\ndef {name}(" not in (ROOT / file).read_text()
    ]
    assert missing == []
