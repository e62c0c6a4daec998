"""A foreign or damaged file of a run ends in one line, and costs no other run its row.

`hostile_folders.check` says what every command must keep to. The fuzzer damages folders
at random for a minute, or FUZZ_SECONDS; a failure prints its steps.
"""

import itertools
import os
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from support import hostile_folders as hostile
from support.commands import called
from support.every import check_every, note_counts
from support.hostile_folders import IRREGULAR, TABLES, WRITERS, loaded

from jaxproto import cli
from jaxproto.data.readers import image_folder
from jaxproto.errors import UserError

pytestmark = pytest.mark.long
LIGHT = [*TABLES[:4], loaded]  # commands that read no checkpoint
BIG = "1" + "0" * 400
CLIENTS = "per_client/000003.npz"
COUNTED = "rules.head.pooled", "round", "bytes_up", "loss"
JSON_ROWS = [  # file, dotted path, JSON there, words of what `load` says
    *(
        ("config.json", field, sign, "config.json cannot be read")
        for field in ("rounds", "seed", "data.clients", "local.batch_size")
        for sign in ("NaN", "Infinity", "1e400", "0.5")
    ),
    ("config.json", "method.lam", '"x"', "method.lam is 'x'"),
    ("config.json", "method", '{"name": "fedproto", "a.b": 1}', "is no name of a fie"),
    ("config.json", "method.lam", r'"\ud800"', "method.lam is"),
    ("config.json", "data.name", r'"\u001b[2J"', "data.name has the character"),
    ("summary.json", "seconds_per_round", '"x"', "seconds_per_round is 'x'"),
    ("summary.json", "rounds", BIG, "beyond 64 bits"),
    ("summary.json", "rules.head.pooled.best", BIG, "beyond 64 bits"),
    ("summary.json", "rules.head.pooled.best", "NaN", "not finite"),
    ("summary.json", "rules.head", '{"pooled": {"best": 1, "final": 1}}', "lacks"),
    *(("metrics.jsonl", field, BIG, "64 bits") for field in COUNTED),
    ("metrics.jsonl", "rules.head.pooled", "[]", "rules.head.pooled is '[]'"),
    ("metrics.jsonl", "bytes_total", "1", "bytes_total is '1'"),
]
DEEP = b'{"round":' * 100_000
CONTENTS = [  # file, content, words of what `load` says
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
    ("partition.csv", b"client,split,0\n0,train,-3\n0,test,1\n", ""),
    ("classes.json", b'{"a": NaN}', ""),
    (CLIENTS, b"PK\3\4", ""),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with hostile.two_runs(tmp_path_factory.mktemp("made")) as found:
        yield found


def endless_columns(file: Path):
    """A table of clients whose header promises 10**12 of them."""
    head = {"shape": (10**12,), "fortran_order": False, "descr": "<i8"}
    with zipfile.ZipFile(file, "w") as archive, archive.open("id.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, head)


def try_all(made, tmp_path, damages, commands):
    """Checks every command on a copy of the runs for each damage."""
    c, folders = made

    def one(i, name, damage, said):
        runs = hostile.copies(folders, tmp_path / str(i))
        damage(runs[0])
        for use in commands:
            told = hostile.check(use, c, runs, tmp_path / f"{i}/out")
            assert use is not loaded or said in told, f"{use.__name__}: {told}"

    check_every([(i, *row) for i, row in enumerate(damages)], one)


def irregular(name: str, kinds) -> list:
    return [(f"{name} {k}", lambda d, k=k: IRREGULAR[k](d / name), "") for k in kinds]


def test_json_that_no_run_writes_is_refused_by_name_and_costs_one_row(made, tmp_path):
    rows = [
        (
            f"{n} {p} {s:.20}",
            lambda d, r=(n, p, s): hostile.with_json(d / r[0], *r[1:]),
            said,
        )
        for n, p, s, said in JSON_ROWS
    ]
    try_all(made, tmp_path, rows, LIGHT)


@pytest.mark.landing
@pytest.mark.parametrize("name", ["config.json", "summary.json", "metrics.jsonl"])
def test_no_command_waits_for_a_pipe_or_reads_without_end(made, tmp_path, name):
    rows = irregular(name, ("pipe", "endless", "huge", "loop"))
    try_all(made, tmp_path, rows, [*LIGHT, WRITERS[len(name) % 2]])


@pytest.mark.landing
def test_damaged_tables_and_checkpoints_cost_a_note_or_a_line(made, tmp_path):
    rows = [
        (f"{n} {b[:20]}", lambda d, n=n, b=b: (d / n).write_bytes(b), said)
        for n, b, said in CONTENTS
    ]
    rows.append(("10**12", lambda d: endless_columns(d / CLIENTS), ""))
    rows += irregular("partition.csv", ("pipe", "huge"))
    rows += irregular(CLIENTS, ("pipe", "huge"))
    try_all(made, tmp_path, rows, [*LIGHT[:2], hostile.plotted("partition"), loaded])
    rows = irregular("checkpoints", ("loop",))
    rows += irregular("checkpoints/3/manifest.json", ("pipe", "endless"))
    other = tmp_path / "other"
    try_all(made, other, rows, [hostile.opened, hostile.resumed])


def test_a_table_of_a_sweep_may_be_a_pipe_or_name_anything(made, tmp_path):
    c, folders = made
    runs = hostile.copies(folders, tmp_path / "sweep")

    def strange(file):
        hostile.replace(file, lambda f: f.write_bytes(b"workdir\na\0b"))

    for put in IRREGULAR["pipe"], IRREGULAR["huge"], strange:
        put(tmp_path / "sweep/sweep.csv")
        named = [runs[0].parent, runs[1]]
        said = hostile.check(hostile.report, c, named, tmp_path / "out")
        assert not said
    with pytest.raises(UserError, match=r"sweep\.csv: it is a pipe"):
        IRREGULAR["pipe"](tmp_path / "sweep/sweep.csv")
        hostile.swept(c, runs, tmp_path / "out")


def test_an_image_starts_no_program(tmp_path, monkeypatch):
    """A PostScript file named as a picture; Pillow would call the `gs` of the PATH."""
    ran = tmp_path / "ran"
    gs = tmp_path / "bin/gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gs.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JAXPROTO_CACHE", "off")
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        eps = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n% {name}\n%%EOF\n"
        (tmp_path / "data" / name / "z.png").write_text(eps)
    with pytest.raises(UserError, match="2 of 2 images cannot be read"):
        image_folder.load(tmp_path / "data")
    assert not ran.exists()


LONG = "a" * 300  # too long for the name of a file
NAMED = [
    ["compare", LONG],
    ["compare", "results", "--out", LONG],
    ["plot", "accuracy_over_rounds", f"{LONG}.png", "results"],
    ["report", LONG],
    ["cost", f"--config={LONG}.py"],
]


def test_a_name_too_long_or_a_current_folder_that_is_gone_is_one_line(
    tmp_path, monkeypatch
):
    def check(*arguments):
        told = called(*arguments)
        assert told.startswith("error: ") and "\n" not in told

    monkeypatch.chdir(tmp_path)
    check_every(map(tuple, NAMED), check)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = called("compare", "run")
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


BATCH = 20  # sequences of steps between two looks at the clock
SETTINGS = settings(
    max_examples=BATCH,
    stateful_step_count=6,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.landing
def test_a_damaged_folder_ends_every_command_in_results_or_one_line(made):
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    done, begun = Counter(), time.time()

    def enough():
        return done["commands"] > 10 and done["refused in one line"]

    try:  # on a slow machine chance may need longer for a damage that is refused
        while time.time() < begun + seconds * (1 if enough() else 10):
            run_state_machine_as_test(hostile.machine(made, done), settings=SETTINGS)
    finally:
        note_counts(f"fuzzed run folders: {dict(done)}")
    assert enough()
