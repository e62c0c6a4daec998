"""Every bad input is one line of error before training, and leaves nothing behind."""

import itertools
import re

import pytest
from support import bad_files, bad_rows
from support.commands import ending
from support.every import check_every
from support.hostile_folders import bounded
from support.runs import ROOT

from jaxproto import cli
from jaxproto.data import host_memory
from jaxproto.training import runner


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """The folder of bad files, and all rows, whose words are a value, field or file."""
    root = tmp_path_factory.mktemp("bad")
    return root, bad_rows.all_of(bad_files.make(root))


@pytest.mark.parametrize("kind", ["names", "words", "workdirs", "files"])
def test_a_bad_input_is_one_line_of_error(bad, kind, tmp_path, monkeypatch):
    def trains(*_, **__):
        raise AssertionError("it was let through to training")

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(runner, "compile_programs", trains)
    monkeypatch.setattr(host_memory, "host_memory_bytes", lambda: 16 * 2**30)
    (root, rows), runs = bad, itertools.count()

    def check(arguments, words):
        given = [a.replace("{}", str(root)) for a in arguments]
        work = tmp_path / f"run{next(runs)}"
        if not any(a.startswith("--workdir") for a in given):
            given.insert(0, f"--workdir={work}")
        with bounded(20), ending() as end:
            cli.call("run", "main.py", given)
        said = str(end.value.code)
        assert re.fullmatch(r"error: [^\n]+", said), said[:300]
        assert words.replace("{}", str(root)) in said, said[:300]
        assert not [*work.rglob("*")], "left behind"

    check_every(rows[kind], check)
