"""Tables of the optional layers: they name what is there, and load it when asked."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from support.runs import ROOT

from jaxproto import plugins

LAYERS = sorted(Path(plugins.__file__).parent.glob("*/plugin.py"))


def test_a_table_joins_the_entries_of_all_layers():
    assert {file.parent.name for file in LAYERS} == {*plugins.LAYERS}
    commands = plugins.table("COMMANDS")
    assert {"sweep", "flower", "leak", "prepare"} <= {*commands}
    assert dict(plugins.table("NO_SUCH_TABLE")) == {}


def test_every_place_that_a_table_names_is_there():
    texts = [
        node.value
        for file in LAYERS
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    places = [text for text in texts if re.fullmatch(r"jaxproto\.[\w.]+(:\w+)?", text)]
    assert len(places) > 20
    for place in places:
        module, _, name = place.partition(":")
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
        assert not name or re.search(
            rf"^((def|class) {name}\(|{name}\b.* = )", source, re.M
        ), place


def test_the_tables_load_nothing_of_what_they_name():
    code = "import sys; from jaxproto import plugins; plugins.table('COMMANDS');"
    code += "print(*[name for name in sys.modules if name.startswith('jaxproto.')])"
    loaded = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    layers = {f"jaxproto.{name}" for name in plugins.LAYERS}
    tables = {f"{name}.plugin" for name in layers} | {"jaxproto.papers.variants"}
    assert {*loaded.split()} == {"jaxproto.plugins"} | layers | tables
