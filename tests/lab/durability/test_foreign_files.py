"""A foreign or damaged file of a run ends in one line, and costs no other run its row.

`hostile_folders.check` says what every command must keep to. The fuzzer damages folders
at random for FUZZ_SECONDS.
"""

import io
import itertools
import os
import re
import sys
import zipfile
from collections import Counter

import numpy as np
import pytest
from support import hostile_folders as hostile
from support.commands import called
from support.every import check_every
from support.hostile_folders import DEEP, TABLES, WRITERS, loaded, plotted
from support.refusal import refused

from jaxproto import cli
from jaxproto.lab.data import image_folder

pytestmark = pytest.mark.long
LIGHT = [*TABLES[:2], plotted("partition"), loaded]  # they read no checkpoint
BIG = "1" + "0" * 400
CLIENTS = "per_client/000003.npz"
ROWS = [  # file; its content, or a path in it and JSON there; words of what `load` says
    *(
        ("config.json", ("rounds", x), "cannot be read")
        for x in ("NaN", "1e400", "0.5")
    ),
    ("config.json", ("method.lam", '"x"'), "method.lam is 'x'"),
    (
        "config.json",
        ("method", '{"name": "fedproto", "a.b": 1}'),
        "is no name of a fie",
    ),
    ("config.json", ("data.name", r'"\u001b[2J"'), "data.name has the character"),
    ("summary.json", ("rounds", BIG), "beyond 64 bits"),
    ("summary.json", ("rules.head.pooled.best", "NaN"), "not finite"),
    ("summary.json", ("rules.head", '{"pooled": {"best": 1, "final": 1}}'), "lacks"),
    ("metrics.jsonl", ("rules.head.pooled", "[]"), "rules.head.pooled is '[]'"),
    ("config.json", b"[]", "it holds a list, no object"),
    ("config.json", b"", "Expecting value"),
    ("config.json", b'{"method": {"name": [1]}}', "method.name is '[1]'"),
    ("config.json", b'{"seed": 0}', "it lacks method"),
    ("config.json", DEEP, "it is nested too deep"),
    ("config.json", b'{"\xff": 1}', "codec can't decode"),
    ("summary.json", b"{}", "it lacks"),
    ("summary.json", b'{"status": 1, "rounds": 4, "rules": {}}', "status is '1'"),
    ("partition.csv", b"client,split,0,1,2\n0,train,%s,1,1\n" % (b"9" * 30), ""),
    ("partition.csv", b"client,split\n", ""),
    ("classes.json", b'{"a": NaN}', ""),
    (CLIENTS, b"PK\3\4", ""),
    *((file, "pipe", "") for file in ("partition.csv", CLIENTS)),
    *((file, "huge", "") for file in ("partition.csv", CLIENTS)),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with hostile.two_runs(tmp_path_factory.mktemp("made")) as found:
        yield found


def endless_columns() -> bytes:
    """A table of clients whose header promises 10**12 of them."""
    head = {"shape": (10**12,), "fortran_order": False, "descr": "<i8"}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file, file.open("id.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, head)
    return content.getvalue()


def try_all(made, tmp_path, rows, commands):
    """Checks every command on a copy of the runs for each damage."""
    c, folders = made

    def one(i, name, what, words):
        runs = hostile.copies(folders, tmp_path / str(i))
        hostile.damage(runs[0] / name, what)
        for use in commands:
            said = hostile.check(use, c, runs, tmp_path / f"{i}/out")
            assert use is not loaded or words in said, f"{use.__name__}: {said}"

    check_every([(i, *row) for i, row in enumerate(rows)], one)


@pytest.mark.landing
def test_what_no_run_writes_is_refused_by_name_and_costs_a_note_or_a_row(
    made, tmp_path
):
    try_all(made, tmp_path, [*ROWS, (CLIENTS, endless_columns(), "")], LIGHT)


@pytest.mark.landing
def test_no_command_waits_for_a_pipe_or_reads_without_end(made, tmp_path):
    for i, name in enumerate(("config.json", "summary.json", "metrics.jsonl")):
        rows = [(name, kind, "") for kind in ("pipe", "endless", "huge", "loop")]
        try_all(made, tmp_path / name, rows, [*LIGHT, WRITERS[i % 2]])
    rows = [("checkpoints", "loop", "")]
    rows += [("checkpoints/3/manifest.json", kind, "") for kind in ("pipe", "endless")]
    try_all(made, tmp_path / "checkpoints", rows, [hostile.opened, hostile.resumed])


def test_a_table_of_a_sweep_may_be_a_pipe_or_name_anything(made, tmp_path):
    (c, folders), table = made, tmp_path / "sweep/sweep.csv"
    runs = hostile.copies(folders, table.parent)
    for what in ("huge", b"workdir\na\0b", "pipe"):
        hostile.damage(table, what)
        named = [table.parent, runs[1]]
        assert not hostile.check(hostile.report, c, named, tmp_path / "out")
    with refused("sweep.csv: it is a pipe"):
        hostile.swept(c, runs, tmp_path / "out")


def test_an_image_starts_no_program(tmp_path, monkeypatch):
    """A PostScript file named as a picture; Pillow would call the `gs` of the PATH."""
    ran = tmp_path / "ran"
    gs = tmp_path / "bin/gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gs.parent}:{os.environ['PATH']}")
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        eps = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n% {name}\n%%EOF\n"
        (tmp_path / "data" / name / "z.png").write_text(eps)
    with refused("2 of 2 images cannot be read"):
        image_folder.load(tmp_path / "data")
    assert not ran.exists()


def test_a_name_too_long_or_a_current_folder_that_is_gone_is_one_line(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    said = called("cost", f"--config={'a' * 300}.py")
    assert re.fullmatch("error: .* too long. Shorten it.", said)
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = called("compare", "run")
    monkeypatch.chdir(tmp_path)
    assert "the current folder is gone" in said


def test_a_closed_or_full_output_is_no_traceback(monkeypatch, made):
    read, closed = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    commands = ["help"], ["compare", *map(str, made[1])]
    outputs = (closed, "141"), (full, "error: cannot write the output: No space")
    for given, (to, end), buffering in itertools.product(commands, outputs, (-1, 1)):
        with os.fdopen(os.dup(to), "w", buffering) as output:
            monkeypatch.setattr(sys, "stdout", output)
            with pytest.raises(SystemExit) as e:
                cli.main(given)
            monkeypatch.undo()
        assert str(e.value.code).startswith(end)


@pytest.mark.landing
def test_a_damaged_folder_ends_every_command_in_results_or_one_line(made):
    done = Counter()
    hostile.fuzz(hostile.machine(made, done), done, steps=6, batch=20)
    assert done["commands"] > 10
