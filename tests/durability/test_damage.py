"""Every damage to a run's folder ends in one line, or in a run that goes on.

One run is made and copied for each row. None may end in another error than UserError,
and none may delete a checkpoint or a record that it does not make again.
"""

import json
import shutil
from pathlib import Path

import pytest
from support import attacked

from jaxproto.errors import UserError
from jaxproto.storage import checkpoint

pytestmark = pytest.mark.long  # a second each


quick_programs = attacked.quick_programs


@pytest.fixture(scope="module")
def made(tmp_path_factory, quick_programs):
    """A finished run with checkpoints of rounds 2, 3, 4, and one of another seed."""
    root = tmp_path_factory.mktemp("made")
    file = attacked.data(root / "toy.npz")
    c = attacked.small("fedproto", file, rounds=4, eval_every=2)
    attacked.run(c, root / "run")
    other = attacked.small("fedproto", file, rounds=4, eval_every=2, seed=1)
    attacked.run(other, root / "other")
    return root, c


@pytest.fixture
def run(made, tmp_path):
    """A copy to be damaged; another run is beside it."""
    shutil.copytree(made[0] / "other", tmp_path / "other")
    return Path(shutil.copytree(made[0] / "run", tmp_path / "run"))


def half(run):
    """The run before it has ended."""
    (run / "summary.json").unlink()


def metrics(run):
    return run / "metrics.jsonl"


def manifest(run):
    return run / "checkpoints/4/manifest.json"


def lines(run):
    return metrics(run).read_bytes().splitlines(keepends=True)


def before(run, *added):
    put(run, *added, *lines(run))


def put(run, *kept):
    metrics(run).write_bytes(b"".join(kept))


def drop(run, *rounds):
    for r in rounds:
        shutil.rmtree(run / "checkpoints" / str(r))


def move(run, old, new):
    (run / "checkpoints" / old).rename(run / "checkpoints" / new)


def copy(run, old, new):
    shutil.copytree(run / "checkpoints" / old, run / "checkpoints" / new)


def foreign(run):
    drop(run, 4)
    shutil.copytree(run.parent / "other/checkpoints/4", run / "checkpoints/4")


def is_folder(file):
    file.unlink()
    file.mkdir()


def is_file(folder):
    shutil.rmtree(folder)
    folder.write_text("")


def left_in_cleaning(run):
    copy(run, "2", "1.partial")
    (run / "summary.json.new").write_text("{")


FROM_3, AFTER_4 = "going on from the one of round 3.", "resuming {run} after round 4"
NAMELESS = ("04", "x", "\u0665")  # no rounds


DEEP = b'{"round":' * 100_000
LACKS_4 = "is ahead of metrics.jsonl, which lacks round 4; " + FROM_3
RENAMED = "is that of round 3 under another name; going on from the one of round"
GOES_ON = [  # what is said of a run that has not ended, and its damage
    ("of round 4 in {run}/checkpoints " + LACKS_4, lambda run: put(run, lines(run)[0])),
    (LACKS_4, lambda run: put(run, lines(run)[0], lines(run)[1][:40])),  # torn
    (
        "metrics.jsonl, which has round 4 in line 3, after round 4; " + FROM_3,
        lambda run: put(run, *lines(run), lines(run)[1]),
    ),
    ("of round 50 in {run}/checkpoints " + RENAMED, lambda run: move(run, "3", "50")),
    (RENAMED, lambda run: (drop(run, 4), copy(run, "3", "4"))),
    ("is of another run (seed: 1 there, 0 here); " + FROM_3, foreign),
    (
        "is damaged (manifest.json cannot be read); " + FROM_3,
        lambda run: manifest(run).write_bytes(DEEP),
    ),
    (
        "manifest.json: it is a folder, no regular file); " + FROM_3,
        lambda run: is_folder(manifest(run)),
    ),
    (AFTER_4, lambda run: (run / "checkpoints/7.partial").write_text("x")),
    (AFTER_4, left_in_cleaning),
    (AFTER_4, lambda run: copy(run, "2", "1")),  # a fourth, left by a kill
    (AFTER_4, lambda run: [copy(run, "4", name) for name in NAMELESS]),
]


@pytest.mark.parametrize(("said", "damage"), GOES_ON)
def test_a_damaged_run_goes_on_to_the_same_end_and_says_from_where(
    made, run, said, damage
):
    half(run)
    damage(run)
    text = attacked.run(made[1], run).replace("\n", " ")
    assert said.format(run=run) in text
    assert attacked.end(run)[0] == attacked.end(made[0] / "run")[0]
    there = {p.name for p in (run / "checkpoints").iterdir()}
    assert {"2", "4"} <= there <= {"2", "3", "4", "50", *NAMELESS}
    assert not list(run.rglob("*.partial")) and not list(run.rglob("*.new"))


NO_RECORD = "of {run}/metrics.jsonl is no record of a run: "
REFUSED = [  # what is said of a run that has not ended, and its damage
    ("{run}/metrics.jsonl cannot be rea", lambda run: is_folder(metrics(run))),
    (f"line 1 {NO_RECORD}it holds a lis", lambda run: before(run, b"[1]\n")),
    (f"line 1 {NO_RECORD}it lacks round", lambda run: before(run, b"{}\n")),
    (f"line 1 {NO_RECORD}it is nested too deep", lambda run: before(run, DEEP, b"\n")),
    (f"line 1 {NO_RECORD}it is not JSON", lambda run: before(run, b'"\xff"\n')),
    (
        f"line 3 {NO_RECORD}round is '3'",
        lambda run: put(run, *lines(run), b'{"round": "3"}\n'),
    ),
    (
        "no checkpoint in {run}/checkpoints can be used: that of round 4 is ahead of "
        "metrics.jsonl, which lacks round 2; that of round 3 is",
        put,
    ),
    ("which lacks round 2; that of round 3", lambda run: metrics(run).unlink()),
    ("{run}/checkpoints is a file, where", lambda run: is_file(run / "checkpoints")),
    (
        "{run}/indices.csv has another partition",
        lambda run: (run / "indices.csv").write_bytes(b"\xff\xfe"),
    ),
    (
        "that of round 40 is that of round 4 under another name; that of round 30",
        lambda run: [
            move(run, *pair) for pair in (("4", "40"), ("3", "30"), ("2", "9"))
        ],
    ),
]


def one_line(call, *args) -> str:
    """The message of a UserError, which is one line."""
    with pytest.raises(UserError) as e:
        call(*args)
    text = str(e.value)
    assert "\n" not in text and len(text) < 1000
    return text


def contents(run):
    """Everything below a folder but the lock of whoever has looked."""
    return {
        str(p): p.read_bytes() if p.is_file() else None
        for p in run.rglob("*")
        if p.name != ".lock"
    }


@pytest.mark.parametrize(("said", "damage"), REFUSED)
def test_what_cannot_go_on_is_refused_in_one_line_and_left_alone(
    made, run, said, damage
):
    half(run)
    damage(run)
    there = contents(run)
    assert said.format(run=run) in one_line(attacked.run, made[1], run)
    assert contents(run) == there


def test_a_finished_run_without_its_metrics_says_what_is_missing(made, run):
    for damage in (put, lambda run: put(run, b""), lambda run: metrics(run).unlink()):
        damage(run)
        there = contents(run)
        text = one_line(attacked.run, made[1], run)
        assert f"{run} has ended after 4 rounds, but not all of it is there" in text
        assert "lacks round 2" in text
        assert contents(run) == there


def test_a_made_longer_run_must_have_the_record_of_where_it_first_ended(made, run):
    c = attacked.small("fedproto", made[0] / "toy.npz", rounds=6, eval_every=4)
    other = run.parent / "longer"
    attacked.run(attacked.small("fedproto", made[0] / "toy.npz", eval_every=4), other)
    attacked.run(c, other)
    rounds = [json.loads(line)["round"] for line in lines(other)]
    assert rounds == [3, 4, 6] and checkpoint.rounds(other / "checkpoints") == [4, 5, 6]
    (other / "summary.json").unlink()
    assert "after round 6" in attacked.run(c, other)
