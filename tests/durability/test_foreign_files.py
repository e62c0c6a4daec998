"""A foreign or damaged file of a run ends in one line, and costs no other run its row.

`hostile_folders.check` says what every command must keep to.
"""

import itertools
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from absl import flags
from support import hostile_folders
from support.every import check_every
from support.hostile_folders import (
    IRREGULAR,
    TABLES,
    WRITERS,
    loaded,
    plotted,
)

from jaxproto import cli
from jaxproto.data.readers import image_folder
from jaxproto.errors import UserError

pytestmark = [pytest.mark.long, pytest.mark.landing]
LIGHT = [*TABLES[:4], loaded]  # commands that read no checkpoint
BIG = "1" + "0" * 400
CLIENTS = "per_client/000003.npz"
JSON_ROWS = [  # file, dotted path, JSON there, words of what `load` says
    *(
        ("config.json", field, sign, "config.json cannot be read")
        for field in ("rounds", "seed", "data.clients", "local.batch_size")
        for sign in ("NaN", "Infinity", "1e400", "0.5")
    ),
    ("config.json", "method.lam", '"x"', "method.lam is 'x'"),
    ("config.json", "method", '{"name": "fedproto", "a.b": 1}', "is no name of a fie"),
    ("config.json", "method.lam", r'"\ud800"', "method.lam is"),
    ("config.json", "data.name", r'"\ud800"', "data.name has the character"),
    ("config.json", "data.name", r'"\u001b[2J"', "data.name has the character"),
    ("summary.json", "seconds_per_round", '"x"', "seconds_per_round is 'x'"),
    ("summary.json", "seconds_per_round", "[]", "seconds_per_round is '[]'"),
    ("summary.json", "rounds", BIG, "beyond 64 bits"),
    ("summary.json", "compile_seconds", BIG, "beyond 64 bits"),
    ("summary.json", "rules.head.pooled.best", BIG, "beyond 64 bits"),
    ("summary.json", "rules.head.pooled.best", "NaN", "not finite"),
    ("summary.json", "rules.head", '{"pooled": {"best": 1, "final": 1}}', "lacks"),
    *(
        ("metrics.jsonl", field, BIG, "beyond 64 bits")
        for field in ("rules.head.pooled", "rules.head.client_mean", "round")
    ),
    *(("metrics.jsonl", f, BIG, "64 bits") for f in ("seconds", "bytes_up", "loss")),
    ("metrics.jsonl", "rules.head.pooled", "NaN", "not finite"),
    ("metrics.jsonl", "rules.head.pooled", "[]", "rules.head.pooled is '[]'"),
    ("metrics.jsonl", "bytes_total", "1", "bytes_total is '1'"),
]
OTHER_ROWS = [  # file, content
    ("partition.csv", b"client,split,0,1,2\n0,train,%s,1,1\n" % (b"9" * 30)),
    ("partition.csv", b"client,split\n"),
    ("partition.csv", b"client,split,0\n0,train,-3\n0,test,1\n"),
    ("classes.json", b'{"a": NaN}'),
    (CLIENTS, b"PK\3\4"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with hostile_folders.two_runs(tmp_path_factory.mktemp("made")) as found:
        yield found


def with_json(folder: Path, name: str, path: str, sign: str):
    text = (folder / name).read_text()
    if name == "metrics.jsonl":
        lines = text.splitlines()
        lines[0] = hostile_folders.with_sign(lines[0], path, sign)
        text = "\n".join(lines) + "\n"
    else:
        text = hostile_folders.with_sign(text, path, sign)
    (folder / name).write_text(text)


def endless_columns(file: Path):
    """A table of clients whose header promises 10**12 of them."""
    head = {"shape": (10**12,), "fortran_order": False, "descr": "<i8"}
    with zipfile.ZipFile(file, "w") as archive, archive.open("id.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, head)


def try_all(made, tmp_path, damages, commands):
    """Checks every command on a copy of the runs for each damage."""
    c, folders = made

    def one(i, name, damage, said):
        runs = hostile_folders.copies(folders, tmp_path / str(i))
        damage(runs[0])
        for use in commands:
            told = hostile_folders.check(use, c, runs, tmp_path / f"{i}/out")
            assert use is not loaded or said in told, f"{use.__name__}: {told}"

    check_every([(i, *row) for i, row in enumerate(damages)], one)


def irregular(name: str, kinds) -> list:
    return [(f"{name} {k}", lambda d, k=k: IRREGULAR[k](d / name), "") for k in kinds]


def test_json_that_no_run_writes_is_refused_by_name_and_costs_one_row(made, tmp_path):
    rows = [
        (f"{n} {p} {s:.20}", lambda d, r=(n, p, s): with_json(d, *r), said)
        for n, p, s, said in JSON_ROWS
    ]
    try_all(made, tmp_path, rows, LIGHT)


@pytest.mark.parametrize("name", ["config.json", "summary.json", "metrics.jsonl"])
def test_no_command_waits_for_a_pipe_or_reads_without_end(made, tmp_path, name):
    rows = irregular(name, ("pipe", "endless", "huge", "loop"))
    try_all(made, tmp_path, rows, [*LIGHT, WRITERS[len(name) % 2]])


def test_damaged_tables_and_checkpoints_cost_a_note_or_a_line(made, tmp_path):
    rows = [(n, lambda d, n=n, b=b: (d / n).write_bytes(b), "") for n, b in OTHER_ROWS]
    rows.append(("10**12", lambda d: endless_columns(d / CLIENTS), ""))
    rows += irregular("partition.csv", ("pipe", "huge"))
    rows += irregular(CLIENTS, ("pipe", "huge"))
    try_all(made, tmp_path, rows, [*LIGHT[:2], plotted("partition"), loaded])
    rows = irregular("checkpoints", ("loop",))
    rows += irregular("checkpoints/3/manifest.json", ("pipe", "endless"))
    other = tmp_path / "other"
    try_all(made, other, rows, [hostile_folders.opened, hostile_folders.resumed])


def test_a_table_of_a_sweep_may_be_a_pipe_or_name_anything(made, tmp_path):
    c, folders = made
    runs = hostile_folders.copies(folders, tmp_path / "sweep")
    for put in (
        IRREGULAR["pipe"],
        IRREGULAR["huge"],
        lambda f: hostile_folders.replace(f, lambda f: f.write_bytes(b"workdir\na\0b")),
    ):
        put(tmp_path / "sweep/sweep.csv")
        named = [runs[0].parent, runs[1]]
        said = hostile_folders.check(hostile_folders.report, c, named, tmp_path / "out")
        assert not said
    with pytest.raises(UserError, match=r"sweep\.csv: it is a pipe"):
        IRREGULAR["pipe"](tmp_path / "sweep/sweep.csv")
        hostile_folders.swept(c, runs, tmp_path / "out")


def test_an_image_starts_no_program(tmp_path, monkeypatch):
    """A PostScript file named as a picture; Pillow would call the `gs` of the PATH."""
    called = tmp_path / "called"
    gs = tmp_path / "bin/gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gs.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JAXPROTO_CACHE", "off")
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        eps = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n% {name}\n%%EOF\n"
        (tmp_path / "data" / name / "z.png").write_text(eps)
    with pytest.raises(UserError, match="2 of 2 images cannot be read"):
        image_folder.load(tmp_path / "data")
    assert not called.exists()


LONG = "a" * 300
EDGES = [  # arguments that name too long a file
    ["compare", LONG],
    ["compare", "results", "--out", LONG],
    ["plot", "accuracy_over_rounds", f"{LONG}.png", "results"],
    ["report", LONG],
    ["cost", f"--config={LONG}.py"],
]


@pytest.mark.parametrize("arguments", EDGES, ids=lambda a: a[0])
def test_a_name_too_long_is_one_line(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = in_process_flags(arguments)
    assert told.startswith("error: ") and "\n" not in told


def in_process_flags(arguments) -> str:
    """The line of a command that defines flags of absl, without keeping them."""
    before = set(flags.FLAGS)
    try:
        return hostile_folders._ended(
            lambda: cli.call(arguments[0], "x", arguments[1:])
        )
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


def test_a_current_folder_that_is_gone_is_one_line(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = hostile_folders._ended(lambda: cli.call("compare", "compare", ["run"]))
    monkeypatch.chdir(tmp_path)
    assert "the current folder is gone" in said


def test_a_closed_or_full_output_is_no_traceback(monkeypatch, made):
    read, closed = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    commands = ["help"], ["compare", *map(str, made[1])]
    for arguments, buffering in itertools.product(commands, (-1, 1)):
        for to, end in ((closed, 141), (full, "error: cannot write the output: No sp")):
            with os.fdopen(os.dup(to), "w", buffering) as output:
                monkeypatch.setattr(sys, "stdout", output)
                with pytest.raises(SystemExit) as e:
                    cli.main(arguments)
                monkeypatch.undo()
            assert str(e.value.code).startswith(str(end))
